"""Checkpoints are written whole or not at all."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch

from resmlp_mt.errors import UserError
from resmlp_mt_runtime.files import whole_file


def write_checkpoint(state: dict, output: Path, remedy: str = "choose another folder") -> None:
    """Write a checkpoint, whole or not at all."""
    with writing(output, remedy) as temporary, open(temporary, "wb") as file:
        torch.save(state, file)


@contextlib.contextmanager
def writing(path: Path, remedy: str) -> Iterator[Path]:
    """:func:`whole_file`, where a full disk is a UserError."""
    try:
        with whole_file(path) as temporary:
            yield temporary
    except (OSError, RuntimeError) as error:
        cause = error  # PyTorch's writer raises another error over the system's
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__context__
        if cause is None:
            raise
        reason = cause.strerror or cause
        raise UserError(f"{path} could not be written ({reason}): {remedy}") from error
