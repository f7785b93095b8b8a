"""The training text: corpora one behind the other, unfit pairs left out and counted.

A line is written with single spaces, and normalised if that was decided. Left out are, in this
order, and every pair is counted under the first that is true of it:

================  ===============================================================================
``invalid-utf8``  a side is not UTF-8, or has U+FFFD in it, which stands where a byte was not (in a
                  recipe's corpora; elsewhere :func:`~resmlp_mt.prepare.corpora.inspect` refuses it)
``empty``         a side has no word
``too-long``      a side has more characters than the most pieces can have, 16 each
``duplicate``     the pair was there before, in this corpus or an earlier one (if that was asked
                  for)
================  ===============================================================================
"""

import hashlib
import shutil
from collections import Counter
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

import numpy as np
from tqdm import tqdm

from resmlp_mt.prepare.corpora import Chunk, Corpora, Corpus, chunks
from resmlp_mt.processes import Workers
from resmlp_mt.text.lines import one_line
from resmlp_mt.text.normalise import Normaliser

PIECE = 16  # characters of the longest piece that SentencePiece makes
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
PARTS = 256
BUFFER = 1 << 15  # bytes of each of the files of hashes
_RECORD = np.dtype([("hash", ">u8", 2), ("line", "<u8")])


class Cleaner:
    """
    Args:
        source_lang, target_lang: languages.
        normalise: whether to make punctuation uniform.
        skip_invalid: whether U+FFFD is taken for a sign of what was not UTF-8.
        max_pieces: of a side.
    """

    def __init__(
        self,
        source_lang: str,
        target_lang: str,
        normalise: bool,
        skip_invalid: bool,
        max_pieces: int,
    ):
        languages = (source_lang, target_lang)
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


class Cleaned(NamedTuple):
    """
    Attributes:
        source, target: a line break behind each sentence.
        hashes: 16 bytes a pair.
        dropped: how many pairs were left out, by reason.
    """

    source: bytes
    target: bytes
    hashes: bytes
    dropped: Counter


_cleaner: Cleaner  # of a worker process


def load_cleaner(*options) -> None:
    """Called once in each worker process."""
    global _cleaner
    _cleaner = Cleaner(*options)


def clean_chunk(chunk: Chunk) -> Cleaned:
    """In a worker process: lines of a corpus to lines that are kept."""
    sources, targets, hashes = [], [], []
    dropped: Counter = Counter()
    for pair in zip(*chunk):
        clean = _cleaner(*pair)
        if isinstance(clean, str):
            dropped[clean] += 1
            continue
        sources.append(clean[0] + b"\n")
        targets.append(clean[1] + b"\n")
        hashes.append(hash_of(*clean))
    return Cleaned(b"".join(sources), b"".join(targets), b"".join(hashes), dropped)


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
    finals = [folder / f"train.{language}" for language in corpora.languages]
    if not options["drop_duplicates"]:
        return _clean(corpora, sizes, options, workers, finals, None)
    every = [folder / f"every.{language}" for language in corpora.languages]
    with Repetitions(folder / "hashes") as repetitions:
        report = _clean(corpora, sizes, options, workers, every, repetitions)
        first = repetitions.first_of_equals()
        begin = 0
        for counts in report.values():
            end = begin + counts["kept"]
            repeated = counts["kept"] - int(np.count_nonzero(first[begin:end]))
            if repeated:
                counts["duplicate"] = repeated
                counts["kept"] -= repeated
            begin = end
        for before, final in zip(every, finals):
            _copy_marked(before, first, final)
            before.unlink()
    return report


def _clean(
    corpora: Corpora,
    sizes: List[int],
    options: dict,
    workers: int,
    outputs: List[Path],
    repetitions: Optional["Repetitions"],
) -> Dict[str, Dict[str, int]]:
    report: Dict[str, Dict[str, int]] = {}
    arguments = (*corpora.languages, options["normalise"], corpora.recipe.skip_invalid)
    with (
        Workers(workers, load_cleaner, *arguments, options["max_pieces"]) as pool,
        open(outputs[0], "wb") as sources,
        open(outputs[1], "wb") as targets,
        tqdm(total=sum(sizes), desc="    clean", unit=" pairs", mininterval=1, disable=None) as bar,
    ):
        for corpus, size in zip(corpora.train, sizes):
            dropped: Counter = Counter()
            for found in pool.map(clean_chunk, _read(corpus, size)):
                sources.write(found.source)
                targets.write(found.target)
                if repetitions is not None:
                    repetitions.add(found.hashes)
                dropped += found.dropped
                bar.update(len(found.hashes) // 16 + sum(found.dropped.values()))
                bar.set_postfix_str(
                    f"{corpus.name}, {sum(dropped.values())} dropped", refresh=False
                )
            report[corpus.name] = {"read": size, **dropped, "kept": size - sum(dropped.values())}
    return report


def _read(corpus: Corpus, limit: int) -> Iterator[Chunk]:
    return chunks(islice(corpus.pairs(), limit))


def _copy_marked(source: Path, marks: np.ndarray, output: Path) -> None:
    with open(source, "rb") as lines, open(output, "wb") as file:
        for begin in range(0, len(marks), BUFFER):
            some = marks[begin : begin + BUFFER].tolist()
            file.writelines(line for line, mark in zip(islice(lines, len(some)), some) if mark)


def hash_of(source: bytes, target: bytes) -> bytes:
    """16 bytes; neither side has a line break in it, which separates them here."""
    return hashlib.blake2b(b"%b\n%b" % (source, target), digest_size=16).digest()


class Repetitions:
    """Which lines of a corpus of any size were there before, found on disk.

    The 128-bit hash of each pair goes to one of 256 files by its first byte, so that equal pairs
    meet in one file, and one file at a time is sorted in memory. (Two different pairs with one
    hash are not expected before 10^18 pairs.)

    Args:
        folder: made on entering the context, removed on leaving the context.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.lines = 0
        self._open = ExitStack()
        self._files: List[BinaryIO] = []

    def __enter__(self) -> "Repetitions":
        self.folder.mkdir()
        for part in range(PARTS):
            file = open(self.folder / f"{part:02x}", "wb", buffering=BUFFER)
            self._files.append(self._open.enter_context(file))
        return self

    def __exit__(self, *_) -> None:
        self._open.close()
        shutil.rmtree(self.folder)

    def add(self, hashes: bytes) -> None:
        """The hashes of the next lines, 16 bytes each."""
        count = len(hashes) // 16
        records = np.empty(count, _RECORD)
        records["hash"] = np.frombuffer(hashes, ">u8").reshape(count, 2)
        records["line"] = np.arange(self.lines, self.lines + count)
        self.lines += count
        first = np.frombuffer(hashes, np.uint8)[::16]
        order = np.argsort(first, kind="stable")
        bounds = np.searchsorted(first[order], np.arange(PARTS + 1))
        records = records[order]
        for file, start, end in zip(self._files, bounds, bounds[1:]):
            if end > start:
                file.write(records[start:end].tobytes())

    def first_of_equals(self) -> np.ndarray:
        """For each line 1 if it is the first of equal lines, 0 if it was there before (uint8, on
        disk)."""
        self._open.close()
        if not self.lines:
            return np.ones(0, np.uint8)
        marks = np.memmap(self.folder / "marks", np.uint8, "w+", shape=(self.lines,))
        marks[:] = 1
        for part in range(PARTS):
            records = np.fromfile(self.folder / f"{part:02x}", _RECORD)
            high, low = records["hash"].T
            order = np.lexsort((low, high))  # stable: of equal ones the earliest line is first
            high, low = high[order], low[order]
            same = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
            marks[records["line"][order[1:][same]]] = 0
        return marks
