"""Parallel text: read, checked, written line by line.

A line ends at ``\n`` and nowhere else, so that the other characters that Python calls line breaks
(a lone CR, U+2028 ...) cannot shift one side against the other.
"""

import contextlib
import gzip
import hashlib
import os
import zlib
from pathlib import Path
from typing import BinaryIO, Iterable, Iterator, List, Tuple

from resmlp_mt.errors import UserError


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """While a file is read, plain or gzip: what goes wrong becomes one line that names it.

    Raises:
        UserError: missing, unreadable, a corrupt gzip.
    """
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path}: damaged gzip file ({error}): fetch it again") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}: give a file that is there") from None


def open_bytes(path: Path) -> BinaryIO:
    """The bytes of a file, plain or ``.gz``."""
    path = Path(path)
    return gzip.open(path) if path.suffix == ".gz" else open(path, "rb")


def sha256_of(path: Path) -> str:
    """SHA-256 of a file as it is, in hexadecimal.

    Raises:
        UserError: what :func:`reading` raises.
    """
    with reading(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_raw_lines(path: Path) -> Iterator[bytes]:
    """Lines of a file, plain or ``.gz``, as they are: with their line ends, whatever the bytes.

    Raises:
        UserError: what :func:`reading` raises.
    """
    with reading(path), open_bytes(path) as file:
        yield from file


def read_lines(path: Path) -> Iterator[str]:
    """Lines of a UTF-8 file, plain or ``.gz``, without their line ends.

    Raises:
        UserError: naming the file, and the line where there is one: missing, unreadable, a corrupt
            gzip, invalid UTF-8.
    """
    yield from decode_lines(
        read_raw_lines(path), str(path), "convert the file to UTF-8 or remove the line"
    )


def decode_lines(lines: Iterable[bytes], name: str, remedy: str) -> Iterator[str]:
    """Lines of UTF-8 without their line ends.

    Args:
        lines: as they are in the file.
        name: what the message calls the file.
        remedy: what it tells the user to do.

    Raises:
        UserError: naming the first line that is not UTF-8.
    """
    for number, line in enumerate(lines, 1):
        try:
            yield line.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}, line {number}: invalid UTF-8 (byte {error.start + 1} of the line): "
                f"{remedy}"
            ) from None


def language_of(path: Path) -> str:
    """What a file's name ends in, but for ``.gz``."""
    return Path(Path(path).name.removesuffix(".gz")).suffix[1:]


def read_parallel(source: Path, target: Path) -> List[Tuple[str, str]]:
    """All sentence pairs of two files.

    Raises:
        UserError: what :func:`read_lines` raises; an empty file; different numbers of lines.
    """
    sides = []
    for path in (source, target):
        lines = list(read_lines(path))
        if not lines:
            raise UserError(f"{path}: empty file: a corpus needs one sentence a line")
        sides.append(lines)
    if len(sides[0]) != len(sides[1]):
        raise UserError(
            f"{source} has {len(sides[0])} lines but {target} has {len(sides[1])}: "
            "both sides of a corpus need the same number"
        )
    return list(zip(*sides))


def drop_empty(pairs: List[Tuple[str, str]]) -> List[Tuple[str, str]]:
    """The pairs in which both sides have a word."""
    return [pair for pair in pairs if pair[0].strip() and pair[1].strip()]


def one_line(text: str) -> str:
    """*text* with every run of white space, line breaks of any kind and NUL as one space."""
    return " ".join(text.replace("\0", " ").split())


def write_lines(path: Path, lines) -> None:
    """Write all lines or nothing: the file takes its name when it is complete, and what is written
    of it before an error, of the disk or of *lines*, is removed."""
    partial = Path(f"{path}.partial")
    try:
        with open(partial, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
