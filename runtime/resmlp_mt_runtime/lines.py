"""Text, one sentence per line: read, checked, written. A file may be compressed by gzip.

A line ends at ``\\n`` only: what else Python calls a line break (a lone CR, U+2028 ...) would shift
one side of a corpus against the other. A byte order mark at the start is not text.
"""

import gzip
import hashlib
import io
import itertools
import os
import select
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO, cast

from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import open_file, whole_file
from resmlp_mt_runtime.pieces import half_pair

STDIN = "-"
MARK = "\N{ZERO WIDTH NO-BREAK SPACE}".encode()
GZIP = b"\x1f\x8b"
BLOCK = 1 << 16  # bytes read at a time from a stream
PATIENCE = 0.01  # seconds without input that count as a pause


def name_of(path: Path) -> str:
    """What messages call *path*."""
    return "standard input" if str(path) == STDIN else str(path)


def strings(lines: Iterable[str]) -> Iterator[str]:
    """The *lines* of a list or another iterable. Raises a UserError for what is not a string, and
    for half of a surrogate pair, which no UTF-8 has."""
    if lines is None or isinstance(lines, (str, bytes)):
        given = "one string" if isinstance(lines, str) else f"{lines!r:.40}"
        raise UserError(f"pass a list of lines, not {given}")
    for number, line in enumerate(lines, 1):
        if not isinstance(line, str):
            raise UserError(f"line {number} is not a string: {line!r:.40}")
        if half := half_pair(line):
            raise UserError(f"line {number} is not Unicode text: {half}")
        yield line


def existing(path: Path) -> Path:
    """The file *path* or, where there is none, the same name with ``.gz``; ``-`` as it is."""
    packed = Path(f"{path}.gz")
    missing = str(path) != STDIN and not Path(path).exists()
    return packed if missing and packed.is_file() else Path(path)


@contextmanager
def open_bytes(path: Path) -> Iterator[BinaryIO]:
    """The bytes of an :func:`existing` file or of standard input (``-``); what is gzip by its
    content is unpacked. UserError if it is damaged."""
    stdin = str(path) == STDIN
    if stdin and sys.stdin is None:  # closed by <&- in a shell
        raise UserError("standard input is closed: give a file, or pipe the text in")
    if stdin:  # where a program has left O_NONBLOCK, a pause would look like the end
        with suppress(OSError, AttributeError):  # no file of the system, or Windows
            os.set_blocking(sys.stdin.fileno(), True)
    with nullcontext(sys.stdin.buffer) if stdin else open(existing(path), "rb") as file:
        if cast(io.BufferedReader, file).peek(2)[:2] != GZIP:
            yield file
            return
        try:
            with gzip.open(file) as unpacked:
                yield cast(BinaryIO, unpacked)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UserError(f"{name_of(path)}: damaged gzip ({error}): fetch it again") from None


def sha256_of(path: Path) -> str:
    """SHA-256 of a file as stored, in hexadecimal; see :func:`open_file`."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_raw_lines(path: Path) -> Iterator[bytes]:
    """Lines of a file or of standard input (``-``), with their line ends, whatever the bytes."""
    with open_bytes(path) as lines:
        for first in itertools.islice(lines, 1):
            yield first.removeprefix(MARK)
        yield from lines


def arriving_lines(path: Path) -> Iterator[str | None]:
    """Lines of UTF-8 without their line ends; None wherever the next one has not arrived yet."""
    number, parts = 1, [b""]
    with open_bytes(path) as file:
        while True:
            if not _is_ready(file):
                yield None
            block = cast(io.BufferedReader, file).read1(BLOCK)
            if not block:
                break
            first, *others = block.split(b"\n")
            parts.append(first)
            for other in others:
                yield decode_line(b"".join(parts), path, number)
                number, parts = number + 1, [other]
        if any(parts):
            yield decode_line(b"".join(parts), path, number)


def decode_line(raw: bytes, path: Path, number: int) -> str:
    """:func:`decoded`, without a byte order mark before line 1; a UserError names a bad line."""
    if number == 1:
        raw = raw.removeprefix(MARK)
    try:
        return decoded(raw)
    except UnicodeDecodeError as error:
        wrong = f"invalid UTF-8 (byte {error.start + 1} of the line)"
        if b"\0" in raw:
            wrong = "not text (it has NUL bytes)"
        remedy = "convert or unpack the file, or remove the line"
        raise UserError(f"{name_of(path)}, line {number}: {wrong}: {remedy}") from None


def decoded(raw: bytes) -> str:
    """A line of UTF-8 without its end. UnicodeDecodeError, also if NULs say that it is UTF-16."""
    raw = raw.rstrip(b"\r\n")
    if raw.count(0) > 1 and raw.count(0) * 3 >= len(raw):
        raise UnicodeDecodeError("utf-8", raw, raw.find(0), raw.find(0) + 1, "NUL")
    return raw.decode("utf-8")


def read_lines(path: Path) -> Iterator[str]:
    """Lines of UTF-8 without their line ends."""
    return (line for line in arriving_lines(path) if line is not None)


def _is_ready(file: BinaryIO) -> bool:
    """Whether a read returns within PATIENCE; True for what is not a stream of the system. On
    Windows, where select takes sockets only, False for every stream: each read is a chunk."""
    try:
        return bool(select.select([file], [], [], PATIENCE)[0])
    except ValueError:
        return True
    except OSError:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)


def read_text(path: Path) -> list[str]:
    """All lines of a text; UserError if it is empty."""
    lines = list(read_lines(path))
    if not lines:
        raise UserError(f"{name_of(path)}: empty file: give one sentence per line")
    return lines


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines atomically: all, or none after an error."""
    with (
        whole_file(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(f"{line}\n" for line in lines)


def check_same_lines(path: Path, lines: int, other: Path, other_lines: int) -> None:
    """Refuse two texts with different numbers of lines."""
    if lines != other_lines:
        said = f"{name_of(path)} has {lines} lines but {name_of(other)} has {other_lines}"
        raise UserError(f"{said}: they must match")
