"""A text that a command was given: a file, plain or gzip, or standard input.

A byte order mark (U+FEFF) at its start, which some editors write, is no part of its first line: to
BLEU it would be a letter of the first word. SentencePiece drops it too.
"""

import sys
from pathlib import Path
from typing import Iterable, Iterator, List, Optional

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import decode_lines, read_lines

STDIN = "-"
MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"


def name_of(path: Path) -> str:
    """How messages call *path*."""
    return "standard input" if str(path) == STDIN else str(path)


def read_text(path: Path) -> List[str]:
    """The lines of a UTF-8 file, plain or ``.gz``, or with ``-`` of standard input (plain).

    Raises:
        UserError: what :func:`iterate_text` raises; no lines at all.
    """
    lines = list(iterate_text(path))
    if not lines:
        raise UserError(f"{name_of(path)}: empty file: give one sentence a line")
    return lines


def iterate_text(path: Path) -> Iterator[str]:
    """The same lines one by one, as they come; there may be none.

    Raises:
        UserError: what :func:`resmlp_mt.text.lines.read_lines` raises; standard input is
            closed.
    """
    return _without_mark(_stdin_lines() if str(path) == STDIN else read_lines(path))


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


def _without_mark(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield line if number else line.removeprefix(MARK)


def _stdin_lines() -> Iterator[str]:
    if sys.stdin is None:  # so Python has it where a shell was told <&-
        raise UserError("standard input is closed: give a file, or pipe the text in")
    return decode_lines(sys.stdin.buffer, name_of(Path(STDIN)), "give UTF-8, not compressed")
