"""The cleaned corpus as the later steps read it: ``train.*`` without the repetitions."""

import random
from itertools import compress
from pathlib import Path
from typing import Iterator, Tuple

from resmlp_mt.prepare.recipes import Pair
from resmlp_mt.text.lines import read_raw_lines

BLOCK = 1 << 16  # lines whose marks are read at a time


def read_kept(folder: Path, pair: Pair) -> Iterator[Tuple[bytes, bytes]]:
    """Sentence pairs of ``train.*`` that ``keep.u8`` marks, with their line ends."""
    sides = [read_raw_lines(folder / f"train.{side}") for side in (pair.source, pair.target)]
    return compress(zip(*sides), _marks(folder / "keep.u8"))


def _marks(path: Path) -> Iterator[int]:
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            yield from block


def sample(lines: Iterator, total: int, size: int, seed: int) -> Iterator:
    """*size* of *lines*, each as likely as any other, in their order; all if there are fewer.

    Selection sampling (Knuth, *Seminumerical Algorithms*, 3.4.2, algorithm S): no memory, and the
    same choice every time.

    Args:
        lines: *total* of them.
    """
    draw = random.Random(seed).random
    wanted = min(size, total)
    for left, line in zip(range(total, 0, -1), lines):
        if draw() * left < wanted:
            wanted -= 1
            yield line
