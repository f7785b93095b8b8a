"""Text before it is split into subwords: invisible characters out, punctuation made uniform.

What fairseq's own recipes for WMT14 do with Moses' scripts ``normalize-punctuation.perl`` and
``remove-non-printing-char.perl``: quotation marks become ``"`` and ``'``, dashes ``-``, no-break
spaces before French punctuation go. The first is sacremoses' port of the script. Where the second
puts a space for every invisible character, those that stand inside words (soft hyphens,
direction marks, a byte order mark) are taken out without one.

Training text, and whatever a model is to translate, must go through here alike. References for
scoring must not.
"""

import regex
from sacremoses import MosesPunctNormalizer

from resmlp_mt.text.lines import one_line

_FORMAT = regex.compile(r"\p{Cf}+")
_CONTROL = regex.compile(r"\p{C}+")


class Normaliser:
    """
    Args:
        language: ``en``, ``de``, ``fr``.
    """

    def __init__(self, language: str):
        self._punctuation = MosesPunctNormalizer(language)

    def __call__(self, text: str) -> str:
        """One line in, one line out: no line break of any kind and single spaces in it."""
        if not text.isprintable():
            text = _CONTROL.sub(" ", _FORMAT.sub("", text))
        return one_line(self._punctuation.normalize(text))
