"""Text, one sentence a line: read, checked, written. A file may be a ``.gz``.

A line ends at ``\\n`` only: what else Python calls a line break (a lone CR, U+2028 ...) would shift
one side of a corpus against the other. A byte order mark at the start is not text.
"""

import gzip
import hashlib
import itertools
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

from resmlp_mt.errors import UserError
from resmlp_mt.files import whole_file

STDIN = "-"
MARK = "\N{ZERO WIDTH NO-BREAK SPACE}".encode()


def name_of(path: Path) -> str:
    """How messages call *path*."""
    return "standard input" if str(path) == STDIN else str(path)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What goes wrong while a file is read becomes one line that names it."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: damaged gzip file ({error}): fetch it again") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}: check the path") from None


def open_bytes(path: Path) -> BinaryIO:
    """The bytes of a file, plain or ``.gz``."""
    path = Path(path)
    return cast(BinaryIO, gzip.open(path) if path.suffix == ".gz" else open(path, "rb"))


def sha256_of(path: Path) -> str:
    """SHA-256 of a file as it is, in hexadecimal."""
    with reading(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_raw_lines(path: Path) -> Iterator[bytes]:
    """Lines of a file or of standard input (``-``), with their line ends, whatever the bytes."""
    if str(path) == STDIN and sys.stdin is None:  # a shell was given <&-
        raise UserError("standard input is closed: give a file, or pipe the text in")
    with (
        reading(path),
        nullcontext(sys.stdin.buffer) if str(path) == STDIN else open_bytes(path) as lines,
    ):
        for first in itertools.islice(lines, 1):
            yield first.removeprefix(MARK)
        yield from lines


def read_lines(path: Path) -> Iterator[str]:
    """Lines of UTF-8, as they come, without their line ends. There may be none."""
    for number, line in enumerate(read_raw_lines(path), 1):
        try:
            yield line.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name_of(path)}, line {number}: invalid UTF-8 (byte {error.start + 1} of the "
                "line): convert it or remove the line"
            ) from None


def read_text(path: Path) -> list[str]:
    """All lines of a text, which has some."""
    lines = list(read_lines(path))
    if not lines:
        raise UserError(f"{name_of(path)}: empty file: give one sentence a line")
    return lines


def check_same_lines(path: Path, lines: int, other: Path, other_lines: int) -> None:
    """Refuse two texts with different numbers of lines."""
    if lines != other_lines:
        raise UserError(
            f"{name_of(path)} has {lines} lines but {name_of(other)} has {other_lines}: both need "
            "the same number"
        )


def without_region(language: str) -> str:
    """``zh`` of ``zh_CN``, ``zh-Hans`` and ``ZH``."""
    return language.lower().replace("_", "-").partition("-")[0]


def one_line(text: str) -> str:
    """Every run of white space, line breaks of any kind and NUL becomes one space."""
    return " ".join(text.replace("\0", " ").split())


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write all lines or, after an error of the disk or of *lines*, nothing."""
    with (
        whole_file(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(f"{line}\n" for line in lines)
