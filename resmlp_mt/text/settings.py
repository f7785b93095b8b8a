"""How the text of prepared data was made: stored beside it, read by whoever translates."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from resmlp_mt.errors import UserError
from resmlp_mt.model_folder import SUBWORDS, TEXT
from resmlp_mt_runtime.files import read_json, whole_file, write_json
from resmlp_mt_runtime.normalise import normaliser
from resmlp_mt_runtime.pieces import RULES, Subwords


@dataclass(frozen=True)
class TextSettings:
    """The languages, as fairseq calls them, and what is done with text."""

    source_lang: str
    target_lang: str
    normalise: bool  # punctuation, as Moses does, before the rule
    subword_model: Path
    rule: str | None = None  # see resmlp_mt_runtime.pieces

    def save(self, folder: Path) -> None:
        """Write ``text.json`` and ``spm.model``."""
        with whole_file(Path(folder) / SUBWORDS) as temporary:
            shutil.copyfile(self.subword_model, temporary)
        names = ("source_lang", "target_lang", "normalise", "rule")
        write_json(Path(folder) / TEXT, {name: getattr(self, name) for name in names})

    @classmethod
    def load(cls, folder: Path, model: Path | None = None) -> "TextSettings | None":
        """The decision stored in a folder, if there is one, with its subwords or *model*."""
        path = Path(folder) / TEXT
        if not path.is_file():
            return None
        found = read_json(path)
        types = {"source_lang": str, "target_lang": str, "normalise": bool}
        for name, kind in types.items():
            if not isinstance(found, dict) or not isinstance(found.get(name), kind):
                raise UserError(f"{path} does not say {name}: prepare the data again")
        rule = found.get("rule")
        if rule not in list(RULES):
            raise UserError(f"{path}: its rule {rule!r:.40} is not known: use a newer resmlp_mt")
        model = model or path.with_name(SUBWORDS)
        return cls(subword_model=model, rule=rule, **{name: found[name] for name in types})

    def for_source(self, source_lang: str) -> "TextSettings":
        """These settings, with the languages swapped if *source_lang* is the target."""
        if source_lang != self.target_lang:
            return self
        return replace(self, source_lang=self.target_lang, target_lang=self.source_lang)

    def encode_source(self, line: str) -> list[str]:
        """Pieces of a source line."""
        return self.subwords.encode(self.plain(self.source_lang)(line))

    def plain(self, language: str) -> Callable[[str], str]:
        """What is done to a line before it is split."""
        rule = RULES[self.rule]
        if not self.normalise:
            return rule
        normalise = normaliser(language)
        return lambda line: rule(normalise(line))

    @cached_property
    def subwords(self) -> Subwords:
        return Subwords(self.subword_model, self.rule)
