"""Text before it is split into subwords: invisible characters out, punctuation made uniform.

What fairseq's WMT14 recipes do with Moses' ``normalize-punctuation.perl`` and
``remove-non-printing-char.perl``. Invisible characters inside words leave no space. The joiners
stay behind a letter that is not Latin: they are spelling in Persian and the scripts of India.
"""

import json
import re
import unicodedata
from functools import cache
from pathlib import Path

from resmlp_mt_runtime.lines import without_region
from resmlp_mt_runtime.pieces import one_line

# what each of Moses' rules needs, in any language, to change more than white space
_PUNCTUATION = re.compile("[()`\"„“”–—´‘’‚…«»\u00a0]|''| [%:;]")


class Normaliser:
    """For text of a language that is trained on or translated, not for references."""

    def __init__(self, language: str):
        rules = json.loads(Path(__file__).with_name("punctuation.json").read_text("utf-8"))
        found, language = rules["every language"], without_region(language)
        for part in (rules["quotes"], rules["numbers"]):
            of = (pairs for languages, pairs in part.items() if language in languages.split())
            found = found + next(of, part.get("", []))
        self._rules = [(re.compile(pattern), replacement) for pattern, replacement in found]

    def __call__(self, text: str) -> str:
        """One line in, one line out: no line break of any kind and single spaces in it."""
        if not text.isprintable():
            text = "".join(map(_visible, " " + text, text))
        # one of Moses' rules takes white space at the end of a line for a character
        text = text.strip()
        if _PUNCTUATION.search(text):
            for rule, replacement in self._rules:
                text = rule.sub(replacement, text)
        return one_line(text)


def _visible(before: str, character: str) -> str:
    """What stays of a character; one that this Python does not know yet may be an emoji."""
    category = unicodedata.category(character)
    if category in ("Cc", "Cs", "Co"):
        return " "
    if category != "Cf":
        return character
    in_word = unicodedata.category(before)[0] in "LM" and "LATIN" not in unicodedata.name(
        before, ""
    )
    return character if character in "\u200c\u200d" and in_word else ""


normaliser = cache(Normaliser)
