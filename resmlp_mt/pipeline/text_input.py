"""A text that a command was given: a file, plain or gzip, or standard input."""

import sys
from pathlib import Path
from typing import Iterator, List, Optional

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.corpus import decode_lines, read_lines

STDIN = "-"


def name_of(path: Path) -> str:
    """How messages call *path*."""
    return "standard input" if str(path) == STDIN else str(path)


def read_text(path: Path) -> List[str]:
    """The lines of a UTF-8 file, plain or ``.gz``, or with ``-`` of standard input (plain).

    Raises:
        UserError: what :func:`resmlp_mt.pipeline.corpus.read_lines` raises; no lines at all.
    """
    lines = list(iterate_text(path))
    if not lines:
        raise UserError(f"{name_of(path)}: empty file: give one sentence a line")
    return lines


def iterate_text(path: Path) -> Iterator[str]:
    """The same lines one by one, as they come; there may be none.

    Raises:
        UserError: what :func:`resmlp_mt.pipeline.corpus.read_lines` raises.
    """
    return _stdin_lines() if str(path) == STDIN else read_lines(path)


def check_one_stdin(**paths: Optional[Path]) -> None:
    """Refuse to read standard input more than once.

    Args:
        paths: the option's value by its name; None where it was not given.

    Raises:
        UserError: naming the options.
    """
    asked = [f"--{name}" for name, path in paths.items() if path and str(path) == STDIN]
    if len(asked) > 1:
        raise UserError(f"{' and '.join(asked)}: only one of them can be standard input (-)")


def check_same_lines(
    path: Path, lines: List[str], references_path: Path, references: List[str], what: str
) -> None:
    """
    Args:
        path, lines: a text and its file.
        references_path, references: the text that it goes with.
        what: what the message calls *lines*.

    Raises:
        UserError: naming both files and their numbers of lines, if these differ.
    """
    if len(lines) != len(references):
        raise UserError(
            f"{name_of(path)}: {len(lines)} {what} but {name_of(references_path)}: "
            f"{len(references)} references: both need one line a sentence"
        )


def _stdin_lines() -> Iterator[str]:
    return decode_lines(sys.stdin.buffer, name_of(Path(STDIN)), "give UTF-8, not compressed")
