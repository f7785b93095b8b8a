"""Text before it is split into subwords: invisible characters out, punctuation made uniform.

What the recipes of fairseq for WMT14 do with Moses' scripts ``normalize-punctuation.perl`` and
``remove-non-printing-char.perl``: quotation marks become ``"`` and ``'``, dashes ``-``, no-break
spaces before French punctuation go. The first is sacremoses' port of the script, which has rules
for some European languages and takes those of English for any other. Where the second puts a space
for every invisible character, those that stand inside words (soft hyphens, direction marks, a byte
order mark) are taken out without one. The two joiners stay behind a letter that is not Latin: to
Persian and the scripts of India they are spelling.

Training text, and whatever a model is to translate, must go through here alike. References for
scoring must not.
"""

import regex
from sacremoses import MosesPunctNormalizer

from resmlp_mt.text.lines import one_line, without_region

_JOINER_IN_WORD = r"(?<=[[\p{L}\p{M}]--\p{Latin}])[\u200c\u200d]"
_FORMAT = regex.compile(rf"(?V1)(?!{_JOINER_IN_WORD})\p{{Cf}}")
_CONTROL = regex.compile(rf"(?V1)(?!{_JOINER_IN_WORD})\p{{C}}")


class Normaliser:
    """
    Args:
        language: such as ``en``, ``de``, ``fr``.
    """

    def __init__(self, language: str):
        self._punctuation = MosesPunctNormalizer(without_region(language))

    def __call__(self, text: str) -> str:
        """One line in, one line out: no line break of any kind and single spaces in it."""
        if not text.isprintable():
            text = _CONTROL.sub(" ", _FORMAT.sub("", text))
        # a rule of Moses takes white space at the end of a line for a character
        return one_line(self._punctuation.normalize(text.strip()))
