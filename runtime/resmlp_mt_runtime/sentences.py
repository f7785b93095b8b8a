"""Lines of several sentences: parts that a model translates well, translated and joined again."""

import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, pairwise
from statistics import fmean
from typing import NamedTuple

from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.pieces import SPACE

# Pieces of a part. A model translates several short sentences worse than each by itself: on
# validation text joined by 5 and 20 lines (Tatoeba, SuttaCentral, acts, news; En-De and En-Fr) 40
# gains -0.1 to 1.2 BLEU over 80; on test sets, with few such lines, -0.5 to 0.3. 20 also divides
# longer sentences at clauses.
BOUND = 40

_CLOSING = "\"'”’»›)]}」』）】》〉"
_TAG = r"\s*</[\w:-]+\s*>|<br\s*/?>"
# no space needs to follow the first; after others, signs (quotes, Markdown, emoji), numbers of
# footnotes and tags may stand, but no further end by itself ("? !", ". . ."); the last are ends of
# clauses, items of lists and lines
_END = re.compile(
    rf"(?:[。｡！？।॥؟۔։።။།]+|．+(?!\d))[{re.escape(_CLOSING)}]*(?:{_TAG})*\s*"
    rf"|(?<![.!?…])[.!?…]+(?:[^\w\s.!?…,;:=/<>[-]|[_¹²³⁰⁴-⁹]|{_TAG}|\[[^\[\]]{{1,20}}\])*"
    r"(?:\s»(?=\s))?(?:\s+(?!\s|[.!?…]+(?:\s|\Z)|</)|(?<=>)(?=\w|<(?!/)))"
    r"|;\s+(?!\s|</)|[；؛]\s*|(?<!\s)\s+(?=[•·▪|*]\s)|(?<!\s)\s*\n\s*"
)
_OPEN = re.compile(r"<[/A-Za-z][^<>]*\Z")  # a tag, if it ends soon: not n<5, x<y
_TAG_END = re.compile(r"[^<>]{,300}>")
_ENTITY = re.compile(r"&(?:#\w+|[A-Za-z]\w+);\Z")
_WORD = re.compile(r"[\w.\u0300-\u036f\u0900-\u0dff]*\Z")  # Indian vowel signs are not \w
_NUMBER = re.compile(r"\d{1,3}|[IVXLC]+")  # am 3. Mai, Louis XIV. Of
# U.S., and words without a vowel (Mr, vgl)
_ABBREVIATED = re.compile(r".*\..*|[b-df-hj-np-tv-xz]+", re.IGNORECASE)
# longer ones, after which no sentence ends
_SHORTENED = re.compile("app?rox|in[ck]l|evtl|resp|abzgl|env|n[uú]m|p[aá]g", re.IGNORECASE)
_CONTINUED = re.compile("<0x[89AB].>")  # a byte of UTF-8 within a character
# Chinese and Japanese, which have no space between sentences, and their punctuation
_UNSPACED = re.compile(
    "[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f\U00020000-\U0003ffff]"
)


def sentences(line: str) -> Iterator[tuple[str, int]]:
    """The sentences of a line, each with the white space after it, and how sure its end is: 2 for
    certain, 1 likely, 0 where a part may end if it has no better end."""
    start = 0
    for end in _END.finditer(line):
        if end.end() < len(line):
            before = line[max(start, end.start() - 300) : end.start() + 1]
            word = _WORD.search(before[-51:-1])
            sure = _ends(word[0], end[0].rstrip(), line[end.end()])  # type: ignore[index]
            inside = _OPEN.search(before) and _TAG_END.match(line, end.start())
            if sure is not None and not inside and not _ENTITY.search(before):
                yield line[start : end.end()], sure
                start = end.end()
    yield line[start:], 2


def _ends(word: str, end: str, after: str) -> int | None:
    """How sure the end of a sentence is; None if it does not end."""
    if end in ("", ";", "；", "؛"):
        return 0
    if after in ")]}" or (end == "." and _SHORTENED.fullmatch(word)):  # (is it "?" ), approx. 5
        return None
    small = after != after.title()  # a small letter, of a script that has two cases
    letters = sum(map(str.isalnum, word))
    if end == "." and letters:
        number = after.isdecimal()
        if letters == 1 or (number and letters < 5) or _NUMBER.fullmatch(word):  # No. 5
            return None
        if small or _ABBREVIATED.fullmatch(word):
            return 0 if letters > (2 if word.isupper() else 3) else None  # SQL. The
        return 2 if letters > 5 and not number else 1  # most abbreviations are shorter
    if small:
        return 0
    # 「はい。」と言った, "Why?" Tom asked, well... I think: these may go on
    return 1 if end[-1] in _CLOSING or "…" in end or ".." in end else 2


def split(
    line: str, encode: Callable[[str], list[str]], limit: int
) -> tuple[list[list[str]], bool]:
    """The parts of a line as pieces, none of a blank line, and whether a sentence was cut.

    A part has whole sentences and at most BOUND pieces; it ends at the last of the surest ends
    within these. A longer sentence is a part of its own, or is cut if it exceeds the *limit*."""
    pieces, bound = encode(line), min(BOUND, limit)
    if len(pieces) <= bound:
        return [pieces] if pieces else [], False
    found = list(sentences(line))
    ends = list(accumulate((len(encode(text)) for text, _ in found), initial=0))
    parts, start, cut = [], 0, False
    while start < len(found):
        most = max(start + 1, bisect(ends, ends[start] + bound) - 1)
        stop = max(range(most, start, -1), key=lambda i: found[i - 1][1])  # the last of the surest
        pieces = encode("".join(text for text, _ in found[start:stop]))
        cut |= len(pieces) > limit
        parts += _cut(pieces, bound) if len(pieces) > limit else [pieces]
        start = stop
    return list(filter(None, parts)), cut


def _cut(pieces: list[str], most: int) -> Iterator[list[str]]:
    """Parts of at most *most* pieces, cut before a word or else between two characters."""
    start = 0
    while start + most < len(pieces):
        ends = range(start + most, start, -1)
        words = (i for i in ends if pieces[i].startswith(SPACE))
        characters = (i for i in ends if not _CONTINUED.fullmatch(pieces[i]))
        stop = next(chain(words, characters), start + most)
        yield pieces[start:stop]
        start = stop
    yield pieces[start:]


def join(texts: Iterable[str]) -> str:
    """The translations of the parts of a line, with spaces between where the script has them."""
    joined = ""
    for text in filter(None, texts):
        last = joined.rstrip("\"'”’»)]")[-1:]
        unspaced = _UNSPACED.match(text if last in "…—" else last)
        # signs, quotes and emoji may stand between
        letters = (next(filter(str.isalnum, side), "") for side in (reversed(joined), text))
        unspaced = unspaced or all(map(_UNSPACED.match, letters))
        joined += text if not joined or unspaced else f" {text}"
    return joined


def join_parts(texts: Iterable[str], lines: Sequence[list[list[str]]]) -> list[str]:
    """The translations of *lines* from the *texts* of all their parts."""
    remaining = iter(texts)
    return [join(islice(remaining, len(parts))) for parts in lines]


class Hypothesis(NamedTuple):
    """Text, its natural log probability divided by length to the power of the penalty, whether it
    ended because it reached the maximum length, and its pieces."""

    text: str
    score: float
    cut: bool = False
    pieces: Sequence[str] = ()


def by_length(lengths: Sequence[int], max_tokens: int, alike: bool = False) -> Iterator[list[int]]:
    """Yield batches as indices, the longest sentences first, so that a lack of memory shows at
    once; with *alike*, all of a batch have one length. A batch has at most *max_tokens*, padding
    included, or one longer sentence. Sentences of a single token, the end, are left out."""
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
    engine, lines: Sequence[list[list[str]]], name: str, first: int, /, **search
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
            where = f"{name}, line {first + bisect(ends, min(lost)) - 1}"
            why = "no translation, because the model's scores are NaN or infinite there"
            raise UserError(f"{where}: {why}: use float32, or another checkpoint")
        found.update(batch)
        joined = []
        for begin, end in pairwise(ends[written:]):
            if not all(i in found for i in range(begin, end)):
                break
            joined.append(_join_nbest([found.pop(i) for i in range(begin, end)]))
            written += 1
        yield sum(len(sources[i]) for i in batch), joined


def _join_nbest(parts: Sequence[list[Hypothesis]]) -> list[Hypothesis]:
    """The n-th translations of the parts of a line, for each n that any part has: their texts,
    their mean score, and all their pieces. Of a part that has fewer it is the last."""
    most = max(map(len, parts), default=0)
    nths = ([nbest[min(n, len(nbest) - 1)] for nbest in parts] for n in range(most))
    return [
        Hypothesis(
            join(one.text for one in nth),
            fmean(one.score for one in nth),
            any(one.cut for one in nth),
            [piece for one in nth for piece in one.pieces],
        )
        for nth in nths
    ]
