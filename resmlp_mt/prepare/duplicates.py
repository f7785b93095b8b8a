"""Which lines of a corpus of any size have been there before, found on disk.

Each pair's 128-bit hash goes to one of 256 files by its first byte, so that equal pairs meet in
one file, and one file at a time is sorted in memory. (Two different pairs with one hash are not to
be expected before 10^18 pairs.)
"""

import hashlib
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Iterator, List

import numpy as np

PARTS = 256
_RECORD = np.dtype([("hash", ">u8", 2), ("line", "<u8")])
BUFFER = 1 << 15  # bytes of each of the 256 files


def hash_of(source: bytes, target: bytes) -> bytes:
    """16 bytes; neither side has a line break in it, which separates them here."""
    return hashlib.blake2b(b"%b\n%b" % (source, target), digest_size=16).digest()


class DuplicateFinder:
    """
    Args:
        folder: made on entering the context, removed on leaving the context.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.lines = 0
        self._open = ExitStack()

    def __enter__(self):
        self.folder.mkdir()
        self._files = []
        for part in range(PARTS):
            file = open(self.folder / f"{part:02x}", "wb", buffering=BUFFER)
            self._files.append(self._open.enter_context(file))
        return self

    def __exit__(self, *_):
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

    def write_mask(self, path: Path) -> None:
        """One byte a line: 1 for the first of equal lines, 0 for the others."""
        self._open.close()
        with open(path, "wb") as file:
            for start in range(0, self.lines, BUFFER):
                file.write(b"\1" * min(BUFFER, self.lines - start))
        if not self.lines:
            return
        mask = np.memmap(path, np.uint8, "r+")
        for repeated in self._repeated():
            mask[repeated] = 0
        mask.flush()

    def _repeated(self) -> Iterator[np.ndarray]:
        """Numbers of the lines that have been there before, file by file."""
        for part in range(PARTS):
            records = np.fromfile(self.folder / f"{part:02x}", _RECORD)
            high, low = records["hash"].T
            order = np.lexsort((low, high))  # stable: of equal ones the earliest line is first
            high, low = high[order], low[order]
            same = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
            yield records["line"][order[1:][same]]


def count_by_corpus(mask: Path, ends: List[int]) -> List[int]:
    """Lines that are 0 in *mask* between each end and the one before it."""
    counts = []
    with open(mask, "rb") as file:
        position = 0
        for end in ends:
            zeros = 0
            while position < end:
                block = file.read(min(1 << 20, end - position))
                zeros += block.count(0)
                position += len(block)
            counts.append(zeros)
    return counts
