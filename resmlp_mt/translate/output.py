"""Where translations go: a file that is written whole or not at all, or standard output."""

import sys
from pathlib import Path
from typing import List

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import STDIN, write_lines

STDOUT = STDIN


def check_output(path: Path) -> None:
    """Refuse, before any work is done, what could not be written.

    Raises:
        UserError: for a folder, a file without a folder to be in, or the name of a gzip file.
    """
    if str(path) == STDOUT:
        return
    if path.is_dir() or not path.parent.is_dir():
        wrong = "is a folder" if path.is_dir() else f"has no folder {path.parent} to be in"
        raise UserError(f"{path} {wrong}: name a file in a folder that is there")
    if path.suffix == ".gz":
        raise UserError(f"{path}: plain text is written: leave off .gz, or pipe --output - to gzip")


def write_output(path: Path, lines: List[str]) -> None:
    """Write all lines.

    Raises:
        UserError: if they cannot be written; nothing is left then.
    """
    if str(path) == STDOUT:
        sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode())
        sys.stdout.buffer.flush()
        return
    try:
        write_lines(path, lines)
    except OSError as error:
        raise UserError(f"{path} could not be written: {error.strerror}") from None
