"""Lines of several sentences: parts that a model translates well, translated and joined again."""

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, zip_longest
from statistics import fmean
from typing import NamedTuple

from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.pieces import SPACE

# Pieces of a part. A model loses the ends of longer lines: of 240 sentences in lines of some 77
# pieces all come out, of 103 pieces 237, of 154 pieces 224, of 193 pieces 207, of 257 pieces 191;
# divided by this bound, 240 or 241 (of 100 pieces: 236).
BOUND = 80

_CLOSING = r"""["'”’»›)\]}」』）】》〉]"""
# no space needs to follow the first; others end a sentence where one follows and no small letter
_END = re.compile(
    rf"(?:[。｡！？।॥؟۔։።။។།]+|．+(?!\d)){_CLOSING}*\s*"
    rf"|[.!?…]+(?:{_CLOSING}|[“‘«‹])*(?:\s»(?=\s))?\s+"
)
_WORD = re.compile(r"[\w.]*\Z")
_VOWEL = re.compile("[aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüœıąęěůőű]", re.IGNORECASE)
# what a point follows that does not end the sentence: words with a vowel; those before a number
_SHORT = re.compile(
    "a(?:pprox|pr|ug)|bes|ca(?:pt)?|co(?:l|rp)?|de[cpz]t?|dipl|env|etc|evtl|ext|feb|ge[nb]|gov|hon|in[cg]"
    "|inkl|jan|jun|jul|ma[gjr]|mio|nov|o[ck]t|op|phil|prof|rep|rev|sen|sept?|sog|usw",
    re.IGNORECASE,
)
_NUMBERED = re.compile("a[br]?[bst]|cap|fig|kap|nos?|sec|tel|vol", re.IGNORECASE)
# Chinese and Japanese, which have no space between sentences, and their punctuation
_UNSPACED = re.compile(
    "[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f\U00020000-\U0003ffff]"
)


def sentences(line: str) -> Iterator[str]:
    """The sentences of a line, each with the white space behind it."""
    start = 0
    for end in _END.finditer(line):
        if end.end() < len(line) and _ends(line[start : end.start()], end[0], line[end.end() :]):
            yield line[start : end.end()]
            start = end.end()
    yield line[start:]


def _ends(before: str, end: str, after: str) -> bool:
    """Whether a sentence ends there."""
    if end[0] not in ".!?…":
        return True
    if after[0].islower():
        return False
    word = _WORD.search(before)[0]  # type: ignore[index]
    if end.strip() != "." or not word:
        return True
    if "." in word or len(word) == 1 or (word.isdecimal() and len(word) < 4):
        return False  # U.S., J. R. R., am 3. Mai
    if _SHORT.fullmatch(word) or (after[0].isdecimal() and _NUMBERED.fullmatch(word)):
        return False
    return not word.isascii() or word.isdecimal() or bool(_VOWEL.search(word))  # Mr, vgl


def split(
    line: str, encode: Callable[[str], list[str]], limit: int
) -> tuple[list[list[str]], bool]:
    """The parts of a line as pieces, none of a blank line, and whether a sentence was cut.

    A part has whole sentences and at most BOUND pieces. A longer sentence is a part of its own, but
    if it has more than *limit* pieces, it is cut where words begin."""
    pieces, bound = encode(line), min(BOUND, limit)
    if len(pieces) <= bound:
        return [pieces] if pieces else [], False
    texts, room = [""], bound
    for sentence in sentences(line):
        length = len(encode(sentence))
        if length > room:
            texts.append("")
            room = bound
        texts[-1] += sentence
        room -= length
    encoded = list(filter(None, map(encode, texts)))
    cut = any(len(pieces) > limit for pieces in encoded)
    if cut:
        encoded = [
            part
            for pieces in encoded
            for part in (_cut(pieces, bound) if len(pieces) > limit else [pieces])
        ]
    return encoded, cut


def _cut(pieces: list[str], most: int) -> Iterator[list[str]]:
    """Parts of at most so many pieces that end where a word begins, if one does."""
    while len(pieces) > most:
        at = next((i for i in range(most, 0, -1) if pieces[i].startswith(SPACE)), most)
        yield pieces[:at]
        pieces = pieces[at:]
    yield pieces


def join(texts: Iterable[str]) -> str:
    """The translations of the parts of a line, with spaces between where the script has them."""
    joined = ""
    for text in filter(None, texts):
        last = joined.rstrip("\"'”’»)]")[-1:]
        joined += text if not joined or _UNSPACED.match(last) else f" {text}"
    return joined


class Hypothesis(NamedTuple):
    """Text, its log probability divided by length to the power of the penalty, whether it ended
    because it had as many tokens as it may, and its pieces."""

    text: str
    score: float
    cut: bool = False
    pieces: Sequence[str] = ()


def by_length(lengths: Sequence[int], max_tokens: int, alike: bool = False) -> Iterator[list[int]]:
    """Batches of similar length, *alike* of one length, as indices, the longest first, so that a
    lack of memory shows at once. Each has at most *max_tokens*, padding included, or one longer
    sentence. Those of a single token, the end, are in none."""
    batch: list[int] = []
    filled = [index for index, length in enumerate(lengths) if length > 1]
    for index in sorted(filled, key=lambda i: -lengths[i]):
        longest = lengths[batch[0]] if batch else 0
        if (len(batch) + 1) * longest > max_tokens or (alike and lengths[index] < longest):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def translate_parts(
    engine, lines: Sequence[list[list[str]]], name: str, first: int, **search
) -> Iterator[tuple[int, list[list[Hypothesis]]]]:
    """The n best translations of *lines*, which are given as their parts: as many lines at a time
    as are complete, and how many tokens were translated for them. Raises a UserError that names the
    text and the line, of which the *first* has that number, if scores are not finite."""
    sources = [part for parts in lines for part in parts]
    ends = list(accumulate(map(len, lines), initial=0))
    found: dict[int, list[Hypothesis]] = {}
    written = 0
    for batch in chain([{}], engine.translations(sources, **search)):  # {}: blank lines come first
        if lost := [i for i, nbest in batch.items() if not nbest]:
            raise UserError(
                f"{name}, line {first + bisect(ends, min(lost)) - 1}: no translation, because the "
                "scores of the model are NaN or infinite there: take float32 (without --fp16, "
                "--float16, --int8), or another checkpoint"
            )
        found.update(batch)
        joined = []
        while written < len(lines) and all(
            i in found for i in range(ends[written], ends[written + 1])
        ):
            nbests = [found.pop(i) for i in range(ends[written], ends[written + 1])]
            joined.append(_join_nbest(nbests))
            written += 1
        yield sum(len(sources[i]) for i in batch), joined


def _join_nbest(parts: Sequence[list[Hypothesis]]) -> list[Hypothesis]:
    """The n-th translations of the parts of a line, for each n that any part has: their texts,
    their mean score, and all their pieces."""
    nths = ([one for one in nth if one is not None] for nth in zip_longest(*parts))
    return [
        Hypothesis(
            join(one.text for one in nth),
            fmean(one.score for one in nth),
            any(one.cut for one in nth),
            [piece for one in nth for piece in one.pieces],
        )
        for nth in nths
    ]
