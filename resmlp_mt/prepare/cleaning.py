"""The corpora, one behind the other: normalised, each pair once, bad lines left out and counted.

Left out are, in this order, and every pair is counted under the first that is true of it:

===============  ================================================================================
``invalid-utf8``  a side is not UTF-8, or has U+FFFD in it, which stands where a byte was not
``empty``         a side has no word
``too-long``      a side has more than 4,000 characters: a piece has 16 at most, so there would be
                  more than 250 (what has 251 pieces and more is found when they are counted)
``duplicate``     the pair has been there before, in this corpus or an earlier one, the same after
                  normalising
===============  ================================================================================

Duplicates are marked in ``keep.u8`` (one byte a line of ``train.*``, 0 for a repetition), not cut
out: that would be one more copy of the corpus.
"""

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple

from tqdm import tqdm

from resmlp_mt.prepare.duplicates import DuplicateFinder, count_by_corpus, hash_of
from resmlp_mt.prepare.layout import Contents, Corpus
from resmlp_mt.prepare.parallel import Workers, chunks
from resmlp_mt.prepare.recipes import Pair
from resmlp_mt.text.lines import read_raw_lines
from resmlp_mt.text.normalise import Normaliser

MAX_CHARACTERS = 4000
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_normalisers: Tuple[Normaliser, Normaliser]  # of a worker process


def load_normalisers(source: str, target: str) -> None:
    """Called once in each worker process."""
    global _normalisers
    _normalisers = Normaliser(source), Normaliser(target)


def clean_chunk(chunk: Tuple[List[bytes], List[bytes]]) -> Tuple[bytes, bytes, bytes, Counter]:
    """In a worker process: lines as they are in the corpus to lines that are kept.

    Returns:
        both sides, a line break behind each sentence; 16 bytes of hash a pair; how many were
        dropped, by reason.
    """
    sources, targets, hashes = [], [], []
    dropped: Counter = Counter()
    for pair in zip(*chunk):
        clean = clean_pair(*pair)
        if isinstance(clean, str):
            dropped[clean] += 1
            continue
        source, target = clean
        sources.append(source + b"\n")
        targets.append(target + b"\n")
        hashes.append(hash_of(source, target))
    return b"".join(sources), b"".join(targets), b"".join(hashes), dropped


def clean_pair(source: bytes, target: bytes):
    """Both sides normalised, as UTF-8, or why the pair is dropped."""
    try:
        sides = source.decode("utf-8"), target.decode("utf-8")
    except UnicodeDecodeError:
        return "invalid-utf8"
    if REPLACEMENT in sides[0] or REPLACEMENT in sides[1]:
        return "invalid-utf8"
    stripped = [side.strip() for side in sides]
    if not all(stripped):
        return "empty"
    if max(map(len, stripped)) > MAX_CHARACTERS:
        return "too-long"
    normal = [normalise(side) for normalise, side in zip(_normalisers, stripped)]
    if not all(normal):
        return "empty"
    return normal[0].encode(), normal[1].encode()


def clean(
    corpora: List[Corpus],
    contents: List[Contents],
    pair: Pair,
    limit: Optional[int],
    workers: int,
    folder: Path,
) -> Dict[str, Dict[str, int]]:
    """Write ``train.SOURCE``, ``train.TARGET`` and ``keep.u8`` into *folder*.

    Args:
        corpora, contents: from :mod:`resmlp_mt.prepare.layout`.
        limit: pairs that are read of each corpus.
        workers: processes.

    Returns:
        by corpus: ``read``, ``kept`` and how many were dropped, by reason.
    """
    report, ends = {}, []
    sizes = [min(found.pairs, limit or found.pairs) for found in contents]
    with (
        Workers(workers, load_normalisers, pair.source, pair.target) as pool,
        DuplicateFinder(folder / "hashes") as finder,
        open(folder / f"train.{pair.source}", "wb") as sources,
        open(folder / f"train.{pair.target}", "wb") as targets,
        tqdm(total=sum(sizes), desc="    clean", unit=" pairs", mininterval=1) as bar,
    ):
        for corpus, size in zip(corpora, sizes):
            dropped: Counter = Counter()
            for source, target, hashes, reasons in pool.map(clean_chunk, _read(corpus, size)):
                sources.write(source)
                targets.write(target)
                finder.add(hashes)
                dropped += reasons
                bar.update(len(hashes) // 16 + sum(reasons.values()))
                bar.set_postfix_str(
                    f"{corpus.name}, {sum(dropped.values())} dropped", refresh=False
                )
            ends.append(finder.lines)
            report[corpus.name] = {"read": size, **dropped}
        finder.write_mask(folder / "keep.u8")
    for counts, repeated in zip(report.values(), count_by_corpus(folder / "keep.u8", ends)):
        counts.update({"duplicate": repeated} if repeated else {})
        counts["kept"] = counts["read"] - sum(
            number for reason, number in counts.items() if reason != "read"
        )
    return report


def _read(corpus: Corpus, limit: int) -> Iterator[Tuple[List[bytes], List[bytes]]]:
    pairs = zip(read_raw_lines(corpus.source), read_raw_lines(corpus.target))
    return chunks(islice(pairs, limit))
