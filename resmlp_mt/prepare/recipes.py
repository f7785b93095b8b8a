"""Recipes: where corpora come from, and how they are prepared unless the user asks otherwise.

Ours are data: ``recipes.toml``, and ``mtdata.recipes.wmt14.yml`` for the list of corpora. Any other
recipe that mtdata knows is taken too, and prepared like the text of a user.
"""

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Dict, Optional, Sequence

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import without_region

HERE = Path(__file__).parent
MTDATA_FILE = HERE / "mtdata.recipes.wmt14.yml"
# SentencePiece's README: 0.9995 for languages with a rich character set like Japanese or Chinese
RICH_SCRIPTS = ("zh", "zho", "cmn", "yue", "ja", "jpn")
RICH_COVERAGE = 0.9995


@dataclass(frozen=True)
class Recipe:
    """How a corpus is prepared. The defaults are for the text of a user.

    Attributes:
        source_lang, target_lang: languages as fairseq calls them.
        name: as the command line has it. The text of a user has none.
        endings: languages as mtdata calls them, which end the names of its files.
        vocab_size: joint SentencePiece pieces.
        character_coverage: share of the characters that are in the vocabulary; None: by language.
        normalise: whether punctuation is made uniform.
        drop_duplicates: whether repeated pairs are left out.
        skip_invalid: whether training lines that are not UTF-8 are left out, in place of an error.
        max_ratio: of the numbers of pieces of both sides; None or 0: any.
        max_pieces: of a side.
        test_pairs: lines of the whole test set, if scores on fewer cannot be compared.
    """

    source_lang: str
    target_lang: str
    name: str = ""
    endings: Sequence[str] = ()
    vocab_size: int = 8000
    character_coverage: Optional[float] = None
    normalise: bool = False
    drop_duplicates: bool = False
    skip_invalid: bool = False
    max_ratio: Optional[float] = None
    max_pieces: int = 250
    test_pairs: Optional[int] = None

    @property
    def coverage(self) -> float:
        if self.character_coverage is not None:
            return self.character_coverage
        languages = (self.source_lang, self.target_lang)
        codes = map(without_region, languages)
        return RICH_COVERAGE if any(code in RICH_SCRIPTS for code in codes) else 1.0

    def directed(self, source_lang: Optional[str], target_lang: Optional[str]) -> "Recipe":
        """The same corpora from one of their languages to the other. None: as the recipe has it.

        Raises:
            UserError: for other languages than the two of the recipe.
        """
        source, target = self.source_lang, self.target_lang
        if source_lang in (None, source) and target_lang in (None, target):
            return self
        if source_lang in (None, target) and target_lang in (None, source):
            backward = self.endings[::-1]
            return replace(self, source_lang=target, target_lang=source, endings=backward)
        raise UserError(
            f"--recipe {self.name} has {source}-{target} and its reverse: "
            f"not {source_lang or '?'}-{target_lang or '?'}"
        )


def _read() -> dict:
    return tomllib.loads((HERE / "recipes.toml").read_text(encoding="utf-8"))


def our_recipes() -> Dict[str, Recipe]:
    """The recipes of ``recipes.toml`` by name."""
    return {name: Recipe(name=name, **fields) for name, fields in _read()["recipes"].items()}


def known_checksums() -> Dict[str, str]:
    """``sha256:...`` or ``md5:...`` by URL."""
    return _read()["checksums"]


def find_recipe(name: str) -> Recipe:
    """One of ours, or any that mtdata knows.

    Raises:
        UserError: if there is none of that name, or mtdata is not installed.
    """
    ours = our_recipes()
    if name in ours:
        return ours[name]
    from resmlp_mt.prepare.download import find_mtdata_recipe  # takes seconds to import

    found = find_mtdata_recipe(name)
    if found is None:
        raise UserError(
            f"--recipe {name}: unknown recipe: choose {' or '.join(ours)}, or an id that "
            "`mtdata list-recipe` shows"
        )
    return found
