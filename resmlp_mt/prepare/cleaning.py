"""The training text: corpora one behind the other, unfit pairs left out and counted.

A line is written with single spaces, and normalised if that was decided. Left out are, in this
order, and every pair is counted under the first that is true of it:

================  ===============================================================================
``invalid-utf8``  a side is not UTF-8, or has U+FFFD in it, which programs write for bytes that
                  they cannot decode (in corpora of a recipe; elsewhere
                  :func:`~resmlp_mt.prepare.corpora.inspect` refuses it)
``empty``         a side has no word
``too-long``      a side has more characters than the most pieces can have, 16 each
``duplicate``     the pair was there before, in this corpus or an earlier one (if that was asked
                  for)
================  ===============================================================================
"""

import hashlib
from collections import Counter
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Dict, List, Tuple, Union

import numpy as np
from tqdm import tqdm

from resmlp_mt.prepare.corpora import Chunk, Corpora, chunks
from resmlp_mt.processes import Workers
from resmlp_mt.text.lines import one_line
from resmlp_mt.text.normalise import Normaliser

PIECE = 16  # characters of the longest piece that SentencePiece makes
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
HASH = 16  # bytes; two different pairs with one hash are not expected before 10^18 pairs
BLOCK = 1 << 20  # pairs looked at together
MOST_SORTED = 1 << 22  # pairs whose hashes are sorted together


class Cleaner:
    """
    Args:
        languages: of source and target.
        normalise: whether to make punctuation uniform.
        skip_invalid: whether U+FFFD is taken for a sign of what was not UTF-8.
        max_pieces: of a side.
    """

    def __init__(
        self, languages: Tuple[str, str], normalise: bool, skip_invalid: bool, max_pieces: int
    ):
        self.plain = [Normaliser(name) if normalise else one_line for name in languages]
        self.skip_invalid = skip_invalid
        self.max_characters = PIECE * max_pieces

    def __call__(self, source: bytes, target: bytes) -> Union[str, Tuple[bytes, bytes]]:
        """Both sides as they are trained on, in UTF-8, or why the pair is left out."""
        try:
            sides = [source.decode("utf-8").strip(), target.decode("utf-8").strip()]
        except UnicodeDecodeError:
            return "invalid-utf8"
        if self.skip_invalid and any(REPLACEMENT in side for side in sides):
            return "invalid-utf8"
        if not all(sides):
            return "empty"
        if max(map(len, sides)) > self.max_characters:
            return "too-long"
        clean = [plain(side) for plain, side in zip(self.plain, sides)]
        if not all(clean):
            return "empty"
        return clean[0].encode(), clean[1].encode()


_cleaner: Cleaner  # of a worker process


def _load_cleaner(*options) -> None:
    global _cleaner
    _cleaner = Cleaner(*options)


def _clean_chunk(chunk: Chunk) -> Tuple[List[bytes], List[bytes], List[bytes], Counter]:
    """Lines of both sides and hashes of the pairs that are kept, and why others are not."""
    sources, targets, hashes = [], [], []
    dropped: Counter = Counter()
    for pair in zip(*chunk):
        clean = _cleaner(*pair)
        if isinstance(clean, str):
            dropped[clean] += 1
            continue
        sources.append(clean[0] + b"\n")
        targets.append(clean[1] + b"\n")
        # neither side has a line break in it, which separates them here
        hashes.append(hashlib.blake2b(b"\n".join(clean), digest_size=HASH).digest())
    return sources, targets, hashes, dropped


def clean(
    corpora: Corpora, sizes: List[int], options: dict, workers: int, folder: Path
) -> Dict[str, Dict[str, int]]:
    """Write ``train.SOURCE`` and ``train.TARGET`` into *folder*.

    Args:
        corpora: with the training text.
        sizes: pairs to read of each training corpus.
        options: of the preparation.
        workers: processes.

    Returns:
        by corpus: ``read``, ``kept`` and how many were left out, by reason.
    """
    report: Dict[str, Dict[str, int]] = {}
    cleaner = (corpora.languages, options["normalise"], corpora.recipe.skip_invalid)
    outputs = [folder / f"train.{language}" for language in corpora.languages]
    hashes = folder / "hashes"
    paths = [*outputs, hashes] if options["drop_duplicates"] else outputs
    with (
        ExitStack() as files,
        Workers(workers, _load_cleaner, *cleaner, options["max_pieces"]) as pool,
        tqdm(total=sum(sizes), desc="    clean", unit=" pairs", mininterval=1, disable=None) as bar,
    ):
        written = [files.enter_context(open(path, "wb")) for path in paths]
        for corpus, size in zip(corpora.train, sizes):
            dropped: Counter = Counter()
            for *kept, left_out in pool.map(_clean_chunk, chunks(islice(corpus.pairs(), size))):
                for file, items in zip(written, kept):
                    file.writelines(items)
                dropped += left_out
                bar.update(len(kept[0]) + left_out.total())
            name = corpus.name
            while name in report:  # a corpus may be given twice
                name += " (again)"
            report[name] = {"read": size, **dropped, "kept": size - dropped.total()}
    if options["drop_duplicates"]:
        _drop_duplicates(outputs, hashes, report)
        hashes.unlink()
    return report


def _drop_duplicates(outputs: List[Path], hashes: Path, report: Dict[str, Dict[str, int]]) -> None:
    first = first_of_equals(hashes)
    begin = 0
    for counts in report.values():
        end = begin + counts["kept"]
        repeated = counts["kept"] - int(np.count_nonzero(first[begin:end]))
        if repeated:
            counts["duplicate"] = repeated
            counts["kept"] -= repeated
        begin = end
    for path in outputs:
        every = path.rename(f"{path}.every")
        with open(every, "rb") as lines, open(path, "wb") as file:
            for begin in range(0, len(first), BLOCK):
                marks = first[begin : begin + BLOCK].tolist()
                file.writelines(
                    line for line, mark in zip(islice(lines, len(marks)), marks) if mark
                )
        every.unlink()


def first_of_equals(hashes: Path) -> np.ndarray:
    """Which pairs were not there before, in memory of fixed size and a byte a pair.

    Equal hashes have equal first bytes. The pairs are sorted in parts, by that byte.

    Args:
        hashes: a file with :data:`HASH` bytes a pair.

    Returns:
        a boolean for each pair, False if it equals an earlier one.
    """
    total = hashes.stat().st_size // HASH
    first = np.zeros(total, bool)
    if not total:
        return first
    every = np.memmap(hashes, np.dtype([("byte", "u1"), ("rest", f"V{HASH - 1}")]))
    parts = min(256, 1 + total // MOST_SORTED)
    for part in range(parts):
        found = [
            begin + np.flatnonzero(every["byte"][begin : begin + BLOCK] % parts == part)
            for begin in range(0, total, BLOCK)
        ]
        numbers = np.concatenate(found)
        _, earliest = np.unique(every[numbers].view(f"S{HASH}"), return_index=True)
        first[numbers[earliest]] = True
    return first
