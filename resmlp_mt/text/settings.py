"""The one decision about text: whether it is normalised, and how it is split into subwords.

It is taken once, when the data are prepared, and stored beside them as ``text.json`` and
``spm.model``. Whoever translates reads it there.
"""

import shutil
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Optional

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json, whole_file, write_json
from resmlp_mt.text.normalise import Normaliser
from resmlp_mt.text.subwords import Subwords

FILE, MODEL = "text.json", "spm.model"


@dataclass(frozen=True)
class TextSettings:
    """
    Attributes:
        source_lang, target_lang: languages, as fairseq calls the data set.
        normalise: whether text goes through :class:`~resmlp_mt.text.normalise.Normaliser`.
        subword_model: a SentencePiece model.
    """

    source_lang: str
    target_lang: str
    normalise: bool
    subword_model: Path

    def save(self, folder: Path) -> None:
        """Write ``text.json`` and, unless it is that file already, ``spm.model`` into *folder*."""
        model = Path(folder) / MODEL
        if not (model.exists() and model.samefile(self.subword_model)):
            with whole_file(model) as temporary:
                shutil.copyfile(self.subword_model, temporary)
        decided = {
            "source_lang": self.source_lang,
            "target_lang": self.target_lang,
            "normalise": self.normalise,
        }
        write_json(Path(folder) / FILE, decided)

    @classmethod
    def load(cls, data_bin: Path) -> "TextSettings":
        """The decision that is stored in *data_bin*.

        Raises:
            UserError: naming the file that is missing or damaged.
        """
        for name in (FILE, MODEL):
            if not (Path(data_bin) / name).is_file():
                raise UserError(
                    f"{data_bin} has no {name}, which says how its text was made: give a data "
                    "folder of `resmlp-mt prepare`"
                )
        return cls._read(Path(data_bin) / FILE, Path(data_bin) / MODEL)

    @classmethod
    def beside(cls, spm_model: Path) -> Optional["TextSettings"]:
        """The decision that is stored in the folder of a SentencePiece model; None if there is
        none.

        Raises:
            UserError: naming ``text.json``, if it is damaged.
        """
        stored = Path(spm_model).with_name(FILE)
        return cls._read(stored, Path(spm_model)) if stored.is_file() else None

    @classmethod
    def _read(cls, path: Path, model: Path) -> "TextSettings":
        found = read_json(path)
        types = {"source_lang": str, "target_lang": str, "normalise": bool}
        for name, kind in types.items():
            if not isinstance(found, dict) or not isinstance(found.get(name), kind):
                raise UserError(f"{path} does not say {name}: prepare the data again")
        return cls(subword_model=model, **{name: found[name] for name in types})

    def reading(self, source_lang: str) -> "TextSettings":
        """For a model from *source_lang*: of one folder of data, models may be trained in both
        directions."""
        if source_lang != self.target_lang:
            return self
        return replace(self, source_lang=self.target_lang, target_lang=self.source_lang)

    def encode_source(self, line: str) -> str:
        """Pieces of a source line, separated by spaces, normalised first if that was decided."""
        return self.subwords.encode(self.plain_source(line))

    def encode_target(self, line: str) -> str:
        """Pieces of a target line, made alike."""
        return self.subwords.encode(self.plain_target(line))

    def plain_source(self, line: str) -> str:
        """A source line before it is split, normalised if that was decided."""
        return self._normalise_source(line) if self.normalise else line

    def plain_target(self, line: str) -> str:
        """A target line before it is split."""
        return self._normalise_target(line) if self.normalise else line

    @cached_property
    def subwords(self) -> Subwords:
        """
        Raises:
            UserError: if the model is missing or no SentencePiece model.
        """
        return Subwords(self.subword_model)

    @cached_property
    def _normalise_source(self) -> Normaliser:
        return Normaliser(self.source_lang)

    @cached_property
    def _normalise_target(self) -> Normaliser:
        return Normaliser(self.target_lang)
