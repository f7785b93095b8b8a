"""Disk space: too little is refused before the work begins, and explained where it runs out."""

import errno
import shutil
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import Dict, Iterator

from resmlp_mt.errors import UserError

# Bytes that a step leaves or needs for a while, of a byte of raw text and of a sentence pair.
# text: the clean text, some of it longer than before, twice while repeated pairs are left out; of
# each pair 24 of its hash and 1 of its mark
TEXT_PER_BYTE, TEXT_PER_PAIR = 2.06, 25
# data-bin: 2 bytes a piece, of which there is one to four bytes of text, a bound for European
# languages; 12 of the index and 4 of the list of lengths a side
BINARY_PER_BYTE, BINARY_PER_PAIR = 0.5, 2 * (12 + 4)
FIXED = 20_000_000  # subwords, held-out sets, reports


def bytes_needed(raw_bytes: int, pairs: int, text_done: bool = False) -> int:
    """Disk that preparing *pairs* takes; *raw_bytes* is their text, both sides."""
    needed = BINARY_PER_BYTE * raw_bytes + BINARY_PER_PAIR * pairs + FIXED
    if not text_done:
        needed += TEXT_PER_BYTE * raw_bytes + TEXT_PER_PAIR * pairs
    return int(needed)


def check_space(needed: Dict[Path, int], what: str) -> None:
    """
    Args:
        needed: bytes by folder; folders on one disk are added up. They need not be there yet.
        what: that needs it.

    Raises:
        UserError: naming the folder, what is needed and what there is.
    """
    disks = defaultdict(int)
    folders = {}
    for folder, size in needed.items():
        there = _existing(folder)
        disks[there.stat().st_dev] += size
        folders.setdefault(there.stat().st_dev, there)
    for disk, size in disks.items():
        free = shutil.disk_usage(folders[disk]).free
        if size > free:
            raise UserError(
                f"{folders[disk]}: {what} needs about {size / 1e9:.2f} GB of disk, "
                f"{free / 1e9:.2f} GB are free: make room or choose another disk"
            )


def _existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    folder = Path(folder).absolute()
    while not folder.exists():
        folder = folder.parent
    return folder


@contextmanager
def explained_when_full(folder: Path) -> Iterator[None]:
    """
    Raises:
        UserError: in place of the error of the system, if the disk (or a quota) is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise UserError(
            f"{folder}: {error.strerror}: make room and run the same command again, which "
            "resumes from the last complete step"
        ) from None
