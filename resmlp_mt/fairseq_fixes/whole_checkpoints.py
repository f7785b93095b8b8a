"""A checkpoint is on the disk whole, or the one before it is.

fairseq 0.12 writes a checkpoint under another name and renames it, but then copies it over
``checkpoint_last.pt`` and ``checkpoint_best.pt`` in place: a kill, or a disk that is full in the
middle of that, leaves half a file where the last good one was. It also writes a second time, after
an error, behind what it had written the first time. It can go when the originals pass
test_interruption.py, ``test_the_middle_of_a_write``.
"""

import time
from typing import Callable, Optional

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes.replacing import replace_once
from resmlp_mt.files import whole_file

TRIES, PAUSE = 3, 2.5  # fairseq's own, in seconds: a network file system may come back


@replace_once(checkpoint_utils, "torch_persistent_save")
def save(original, state: dict, path: str, async_write: bool = False) -> None:
    """
    Args:
        original: writes to what is no local file, or in the background.

    Raises:
        UserError: if it cannot be written at the third try; what was at *path* is still there.
    """
    if async_write or not PathManager.supports_rename(path):
        return original(state, path, async_write=async_write)

    def write(temporary: str) -> None:
        with open(temporary, "wb") as file:
            torch.save(state, file)

    return _write_whole(path, write)


@replace_once(PathManager, "copy")
def copy(original, source: str, path: str, overwrite: bool = False) -> bool:
    """
    Args:
        original: copies to what is no local file.

    Raises:
        UserError: if it cannot be written at the third try; what was at *path* is still there.
    """
    if not overwrite or not PathManager.supports_rename(path):
        return original(source, path, overwrite=overwrite)

    def write(temporary: str) -> None:
        if not original(source, temporary, overwrite=True):
            raise OSError(f"copying {source} failed")  # iopath has logged why

    _write_whole(path, write)
    return True


def _write_whole(path: str, write: Callable[[str], None]) -> None:
    """Call *write* with the name to write *path* under; three times at most."""
    for number in range(1, TRIES + 1):
        try:
            with whole_file(path) as temporary:
                write(str(temporary))
            return
        except (OSError, RuntimeError) as error:
            cause = _cause(error)
            if cause is None:
                raise
            if number == TRIES:
                raise UserError(
                    f"{path} could not be written ({cause.strerror or cause}): make room there, "
                    "then the same command resumes from the last checkpoint"
                ) from error
            time.sleep(PAUSE)


def _cause(error: Optional[BaseException]) -> Optional[OSError]:
    """The error of the operating system: the writer of PyTorch raises another one over it."""
    while error is not None and not isinstance(error, OSError):
        error = error.__context__
    return error
