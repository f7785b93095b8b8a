"""A checkpoint is on the disk whole, or the one before it is: what fairseq's saving lacks.

fairseq 0.12 writes a checkpoint under another name and renames it, but then copies it over
``checkpoint_last.pt`` and ``checkpoint_best.pt`` in place: a kill, or a disk that is full in the
middle of that, leaves half a file where the last good one was. It also writes a second time, after
an error, behind what it had written the first time.
"""

import errno
import time
from typing import Callable, Optional

import torch
from fairseq.file_io import PathManager

from resmlp_mt.errors import UserError
from resmlp_mt.files import whole_file

TRIES, PAUSE = 3, 2.5  # fairseq's own, in seconds: a network's file system may come back
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _cause(error: Optional[BaseException]) -> Optional[OSError]:
    """The operating system's error: PyTorch's writer raises another one over it."""
    while error is not None and not isinstance(error, OSError):
        error = error.__context__
    return error


def _failed(path: str, error: OSError) -> UserError:
    remedy = "make room" if error.errno in _FULL else "see to it"
    return UserError(
        f"{path} could not be written ({error.strerror or error}): {remedy} and give the same "
        "command again, which goes on from the last checkpoint"
    )


def _trying(path: str, write: Callable[[str], None]) -> None:
    """Write a file whole, at the third try at the latest.

    Args:
        path: file to write.
        write: called with the name to write it under.

    Raises:
        UserError: if it cannot be written; what was at *path* is still there.
    """
    for number in range(1, TRIES + 1):
        try:
            with whole_file(path) as partial:
                write(str(partial))
            return
        except (OSError, RuntimeError) as error:
            cause = _cause(error)
            if cause is None:
                raise
            if number == TRIES:
                raise _failed(path, cause) from error
            time.sleep(PAUSE)


def save(original: Callable, state: dict, path: str, async_write: bool = False) -> None:
    """Stands for ``fairseq.checkpoint_utils.torch_persistent_save``.

    Args:
        original: that function, which still writes asynchronously and to what is no local file.
        state: the checkpoint.
        path: file to write.
        async_write: whether to return before it is written.

    Raises:
        UserError: if it cannot be written at the third try; what was at *path* is still there.
    """
    if async_write or not PathManager.supports_rename(path):
        return original(state, path, async_write=async_write)

    def write(partial: str) -> None:
        with open(partial, "wb") as file:
            torch.save(state, file)

    return _trying(path, write)


def copy(original: Callable, source: str, path: str, overwrite: bool = False) -> bool:
    """Stands for ``fairseq.file_io.PathManager.copy``.

    Args:
        original: that function, which still copies to what is no local file.
        source: file to copy.
        path: file to write.
        overwrite: whether there may be one already.

    Raises:
        UserError: if it cannot be written at the third try; what was at *path* is still there.
    """
    if not overwrite or not PathManager.supports_rename(path):
        return original(source, path, overwrite=overwrite)

    def write(partial: str) -> None:
        if not original(source, partial, overwrite=True):
            raise OSError(f"copying {source} failed")  # iopath has logged why

    _trying(path, write)
    return True
