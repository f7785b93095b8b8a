"""fairseq's reading of text, with lines that end at the line feed and nowhere else.

Python's text files end a line at a lone carriage return too, which then shifts one side of a corpus
against the other, or makes two answers of one line. Here a line is what it is to ``wc``, and what
is not UTF-8 is refused with the file's name and the line's number.
"""

import os
from pathlib import Path
from typing import BinaryIO, Iterator, List

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import read_lines


def buffered_read(buffered_read, input: str, buffer_size: int) -> Iterator[List[str]]:
    """In place of fairseq-interactive's: *buffer_size* lines at a time, without the white space at
    their ends.

    Args:
        buffered_read: fairseq's function.
        input: a file, plain or ``.gz``, or ``-`` for standard input.
        buffer_size: lines.
    """
    buffer = []
    for line in read_lines(Path(input)):
        buffer.append(line.strip())
        if len(buffer) >= buffer_size:
            yield buffer
            buffer = []
    if buffer:
        yield buffer


def find_offsets(find_offsets, filename: str, num_chunks: int) -> List[int]:
    """In place of fairseq's: where each of *num_chunks* parts of a file begins, and its end."""
    with open(filename, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        offsets = [0]
        for number in range(1, num_chunks):
            file.seek(size // num_chunks * number)
            file.readline()
            offsets.append(file.tell())
        return [*offsets, size]


def open_chunk(enter, chunker) -> "ChunkLines":
    """In place of ``fairseq.file_chunker_utils.Chunker.__enter__``."""
    chunker.fd = open(chunker.path, "rb")  # noqa: SIM115 (its __exit__ closes it)
    return ChunkLines(chunker.fd, chunker.path, chunker.start_offset, chunker.end_offset)


class ChunkLines:
    """The lines of a part of a file, with their ends.

    Args:
        file: the file.
        path: its name, for messages.
        start: byte at which its first line begins.
        end: byte behind its last line; 0 or less for the file's end.
    """

    def __init__(self, file: BinaryIO, path: str, start: int, end: int):
        self.file, self.path, self.start, self.end = file, path, start, end

    def __iter__(self) -> Iterator[str]:
        position = self.start
        self.file.seek(position)
        while line := self.file.readline():
            position += len(line)
            if 0 < self.end < position:
                break
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as error:
                raise UserError(
                    f"{self.path}, line {self._number(position)}: invalid UTF-8 (byte "
                    f"{error.start + 1} of the line): convert the file to UTF-8 or remove the line"
                ) from None

    def _number(self, position: int) -> int:
        """The number of the line that ends at *position*."""
        self.file.seek(0)
        before = self.file.read(position)
        return before.count(b"\n") + (not before.endswith(b"\n"))
