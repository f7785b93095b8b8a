"""A line that is longer than the model reads, cut at the ends of its sentences or between words."""

from typing import Iterator, List

from resmlp_mt.text.subwords import SPACE

ENDS = (".", "!", "?", "…")  # of a sentence, where a space follows
ENDS_ANYWHERE = ("。", "！", "？")  # no space follows them
CLOSING = "\"'”’»)]」』"


def split(pieces: List[str], limit: int) -> List[List[str]]:
    """Parts of at most *limit* pieces; no part for no pieces, one for a line that fits."""
    if len(pieces) <= limit:
        return [pieces] if pieces else []
    return [part for sentence in _sentences(pieces) for part in _cut(sentence, limit)]


def _sentences(pieces: List[str]) -> Iterator[List[str]]:
    start = 0
    for i in range(1, len(pieces)):
        before = "".join(pieces[max(start, i - 3) : i]).rstrip(CLOSING)
        spaced = pieces[i].startswith(SPACE) and before.endswith(ENDS)
        if spaced or (before.endswith(ENDS_ANYWHERE) and pieces[i] not in CLOSING):
            yield pieces[start:i]
            start = i
    yield pieces[start:]


def _cut(sentence: List[str], limit: int) -> Iterator[List[str]]:
    """At the last word that begins within the limit, or at the limit where none does."""
    while len(sentence) > limit:
        words = (i for i in range(limit, 0, -1) if sentence[i].startswith(SPACE))
        at = next(words, limit)
        yield sentence[:at]
        sentence = sentence[at:]
    yield sentence
