"""What is stored beside prepared data: the decision about text, and the dictionaries.

``prepare`` decides once whether text is normalised and how it is split, and stores that as
``text.json`` and ``spm.model``. Whoever translates reads it there.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json, whole_file, write_json

if TYPE_CHECKING:  # the model imports this module, and needs no subwords
    from resmlp_mt.text.subwords import Subwords

FILE, MODEL = "text.json", "spm.model"
TRAINING = "train.json"  # what a training was begun with, beside its checkpoints


@dataclass(frozen=True)
class TextSettings:
    """The languages, as fairseq calls them, and what is done with text."""

    source_lang: str
    target_lang: str
    normalise: bool
    subword_model: Path

    def save(self, folder: Path) -> None:
        """Write ``text.json`` and ``spm.model``."""
        with whole_file(Path(folder) / MODEL) as temporary:
            shutil.copyfile(self.subword_model, temporary)
        names = ("source_lang", "target_lang", "normalise")
        write_json(Path(folder) / FILE, {name: getattr(self, name) for name in names})

    @classmethod
    def load(cls, folder: Path, model: Path | None = None) -> "TextSettings | None":
        """The decision stored in a folder, if there is one, with its subwords or *model*."""
        path = Path(folder) / FILE
        if not path.is_file():
            return None
        found = read_json(path)
        types = {"source_lang": str, "target_lang": str, "normalise": bool}
        for name, kind in types.items():
            if not isinstance(found, dict) or not isinstance(found.get(name), kind):
                raise UserError(f"{path} does not say {name}: prepare the data again")
        model = model or path.with_name(MODEL)
        return cls(subword_model=model, **{name: found[name] for name in types})

    def reading(self, source_lang: str) -> "TextSettings":
        """For a model from *source_lang*: one folder of data serves both directions."""
        if source_lang != self.target_lang:
            return self
        return replace(self, source_lang=self.target_lang, target_lang=self.source_lang)

    def encode_source(self, line: str) -> str:
        """Pieces of a source line, separated by spaces."""
        return self.subwords.encode(self.plain(self.source_lang)(line))

    def plain(self, language: str) -> Callable[[str], str]:
        """What is done to a line before it is split."""
        if not self.normalise:
            return str
        from resmlp_mt.text.normalise import normaliser

        return normaliser(language)

    @cached_property
    def subwords(self) -> "Subwords":
        from resmlp_mt.text.subwords import Subwords

        return Subwords(self.subword_model)


def dictionary_digest(folder: Path, languages: tuple[str, str]) -> str | None:
    """What tells the dictionaries in a folder from others; None if they are not there."""
    paths = [Path(folder) / f"dict.{language}.txt" for language in languages]
    if not all(path.is_file() for path in paths):
        return None
    source, target = (path.read_bytes() for path in paths)
    return sha256(source if source == target else source + target).hexdigest()[:16]


def check_dictionaries(checkpoint: Path, data: Path, languages: tuple[str, str]) -> None:
    """Refuse *data* that numbers the words differently than dictionaries or ``train.json``
    beside the checkpoint do."""
    folder = Path(checkpoint).parent
    trained_on, given = (dictionary_digest(each, languages) for each in (folder, data))
    if trained_on is None:
        try:
            trained_on = read_json(folder / TRAINING)["data"]["dictionary"]
        except (UserError, KeyError, TypeError):
            return  # no such file, or another program's
    if given is not None and trained_on != given:
        raise UserError(
            f"{checkpoint} was trained with other dictionaries than those of {data}: prepare these "
            "with --subword-model DATA/data-bin/spm.model of the training data"
        )
