"""Text before it is split into subwords: invisible characters out, punctuation made uniform.

What fairseq's WMT14 recipes do with Moses' ``normalize-punctuation.perl`` and
``remove-non-printing-char.perl``. Invisible characters inside words leave no space. The joiners
stay behind a letter that is not Latin: they are spelling in Persian and the scripts of India.
"""

import re
from functools import cache

import regex
from sacremoses import MosesPunctNormalizer

from resmlp_mt.text.lines import one_line, without_region

_JOINER_IN_WORD = r"(?<=[[\p{L}\p{M}]--\p{Latin}])[\u200c\u200d]"
_FORMAT = regex.compile(rf"(?V1)(?!{_JOINER_IN_WORD})\p{{Cf}}")
_CONTROL = regex.compile(rf"(?V1)(?!{_JOINER_IN_WORD})\p{{C}}")
# what each of Moses' rules needs, in any language, to change more than white space
_PUNCTUATION = re.compile("[()`\"„“”–—´‘’‚…«»\u00a0]|''| [%:;]")


class Normaliser:
    """For text of a language that is trained on or translated, not for references."""

    def __init__(self, language: str):
        rules = MosesPunctNormalizer(without_region(language)).substitutions
        self._rules = [(re.compile(pattern), replacement) for pattern, replacement in rules]

    def __call__(self, text: str) -> str:
        """One line in, one line out: no line break of any kind and single spaces in it."""
        if not text.isprintable():
            text = _CONTROL.sub(" ", _FORMAT.sub("", text))
        # one of Moses' rules takes white space at the end of a line for a character
        text = text.strip()
        if _PUNCTUATION.search(text):
            for rule, replacement in self._rules:
                text = rule.sub(replacement, text)
        return one_line(text)


normaliser = cache(Normaliser)
