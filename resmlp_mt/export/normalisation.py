"""What is done to text before it is split, as substitutions that need no library."""

from typing import List, Tuple

import regex
from sacremoses import MosesPunctNormalizer

from resmlp_mt.text.lines import without_region

_ALL = "".join(map(chr, range(0x110000)))


def _characters(pattern: str) -> str:
    """The characters that match *pattern*, as ranges for a class in brackets."""
    runs = (match.group() for match in regex.finditer(f"(?V1)(?:{pattern})+", _ALL))
    return "".join(run if len(run) < 3 else f"{run[0]}-{run[-1]}" for run in runs)


def substitutions(language: str) -> List[Tuple[str, str]]:
    """Pairs of a regular expression and a replacement, in order, which do what
    :class:`resmlp_mt.text.normalise.Normaliser` does but for the white space of the result."""
    other_letters = _characters(r"[[\p{L}\p{M}]--\p{Latin}]")
    not_spelling = rf"(?!(?<=[{other_letters}])[\u200c\u200d])"
    invisible, other = r"\p{Cf}", r"\p{C}"
    return [
        (not_spelling + f"[{_characters(invisible)}]", ""),
        (not_spelling + f"[{_characters(other)}]", " "),
        (r"^\s+|\s+$", ""),
        *MosesPunctNormalizer(without_region(language)).substitutions,
    ]
