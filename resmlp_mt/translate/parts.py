"""The translations of a text in a folder, a file for each chunk of lines.

A file takes its name when its chunk is complete, so that a run that was stopped resumes behind the
last of them, and several processes or computers may work on one text.
"""

import contextlib
import gzip
import itertools
import json
import shutil
import zlib
from hashlib import sha256
from pathlib import Path
from typing import Collection, Iterator, List, Tuple

from resmlp_mt.errors import UserError
from resmlp_mt.files import check_options, lock, make_folder, read_own, whole_file, write_json
from resmlp_mt.text.lines import STDIN, name_of, read_lines
from resmlp_mt.translate.translator import Hypothesis

CHUNK_LINES = 1024
Chunk = Tuple[int, List[str]]  # its number, and the lines


class Text:
    """The lines of a file, read once to count them. Only what can be read no second time, such
    as standard input or a pipe, is kept in memory.

    Args:
        path: a file, plain or ``.gz``, or ``-`` for standard input.

    Attributes:
        lines: how many.
        digest: SHA-256 of the text.

    Raises:
        UserError: if the file is missing, empty, damaged or not UTF-8.
    """

    def __init__(self, path: Path):
        self.path, self.name = path, name_of(path)
        again = str(path) != STDIN and Path(path).is_file()
        self._kept = None if again else list(read_lines(path))
        digest, self.lines = sha256(), 0
        for line in self:
            digest.update(f"{line}\n".encode())
            self.lines += 1
        if not self.lines:
            raise UserError(f"{self.name}: empty file: give one sentence a line")
        self.digest = digest.hexdigest()

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept) if self._kept is not None else read_lines(self.path)

    @property
    def numbers(self) -> range:
        """Of its chunks."""
        return range(-(-self.lines // CHUNK_LINES))

    def size(self, number: int) -> int:
        """Lines of a chunk."""
        return min(CHUNK_LINES, self.lines - number * CHUNK_LINES)

    def first_line(self, number: int) -> int:
        """Of a chunk, counted from 1."""
        return number * CHUNK_LINES + 1

    def chunks(self, numbers: Collection[int]) -> Iterator[Chunk]:
        """The chunks of :data:`CHUNK_LINES` with these *numbers*, in the order of the text."""
        lines, numbers = iter(self), set(numbers)
        for number in itertools.count():
            chunk = list(itertools.islice(lines, CHUNK_LINES))
            if not chunk:
                return
            if number in numbers:
                yield number, chunk


class Parts:
    """The folder. While it is open, no other process has the same shard of it.

    Args:
        folder: made if it is not there.
        identity: what the translations depend on, as JSON values.
        text: what is translated.
        num_shards, shard_id: as of fairseq-generate: this process makes every chunk whose number
            leaves *shard_id* when divided by *num_shards*.

    Raises:
        UserError: if the folder cannot be written, holds other translations, or another process
            works on this shard.
    """

    def __init__(
        self, folder: Path, identity: dict, text: Text, num_shards: int = 1, shard_id: int = 0
    ):
        self.folder, self.text = Path(folder), text
        self.num_shards, self.shard_id = num_shards, shard_id
        self._options = {**identity, "source": text.digest, "chunk_lines": CHUNK_LINES}

    def __enter__(self) -> "Parts":
        with contextlib.ExitStack() as held:
            held.enter_context(lock(self._lock(f"shard.{self.shard_id}")))
            make_folder(self.folder)  # the process that had the lock may have removed it
            if not self._manifest.exists():
                write_json(self._manifest, {"options": self._options})
            made_with = read_own(self._manifest, "options")
            if self.nothing_made:
                made_with = {"options": self._options}
                write_json(self._manifest, made_with)
            check_options(
                f"{self.folder} holds translations",
                made_with["options"],
                self._options,
                "choose another place or delete this folder",
            )
            self._held = held.pop_all()
        return self

    def __exit__(self, *_) -> None:
        empty = not any(self.path(number).exists() for number in self.text.numbers)
        # where there is nothing to resume, other options may be taken the next time
        if empty and (self.nothing_made or not self._manifest.exists()):
            self.remove()
        self._held.close()

    @property
    def nothing_made(self) -> bool:
        """Whether no chunk is there, as after a kill, and no other shard may be at work."""
        others = {path.name for path in self.folder.glob("locks/*")} - {f"shard.{self.shard_id}"}
        return not others and not any(self.folder.glob("[0-9]*.jsonl.gz"))

    def _lock(self, name: str) -> Path:
        return self.folder / "locks" / name

    @property
    def _manifest(self) -> Path:
        return self.folder / "manifest.json"

    def path(self, number: int) -> Path:
        """The file of a chunk."""
        return self.folder / f"{number:06}.jsonl.gz"

    @property
    def missing(self) -> List[int]:
        """Numbers of the chunks that are not there yet, whoever makes them. None are missing where
        another process has made the output and removed the folder."""
        if not self._manifest.exists():
            return []
        return [number for number in self.text.numbers if not self.path(number).exists()]

    @property
    def todo(self) -> List[int]:
        """Those of them that are for this shard to make."""
        return [number for number in self.missing if number % self.num_shards == self.shard_id]

    def write(self, number: int, hypotheses: List[List[Hypothesis]]) -> None:
        """Keep a chunk: the hypotheses of each of its lines."""
        with (
            whole_file(self.path(number)) as temporary,
            gzip.open(temporary, "wt", encoding="utf-8") as file,
        ):
            for record in hypotheses:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def __iter__(self) -> Iterator[List[Hypothesis]]:
        """The hypotheses of each line of the text, once no chunk is missing.

        Raises:
            UserError: if a file is damaged.
        """
        for number in self.text.numbers:
            yield from read_chunk(self.path(number), self.text.size(number))

    @contextlib.contextmanager
    def last(self) -> Iterator[bool]:
        """Whether it is for this process to do what comes after the last chunk: all of them are
        there, and no other process does it or has done it."""
        with contextlib.ExitStack() as held:
            last = self._manifest.exists() and not self.missing
            if last:
                try:
                    held.enter_context(lock(self._lock("output")))
                except UserError:
                    last = False
                # the process that had the lock may have removed everything
                last = last and self._manifest.exists() and not self.missing
            yield last

    def remove(self) -> None:
        """Delete what was made in the folder, and the folder if nothing else is in it."""
        for path in (*map(self.path, self.text.numbers), self._manifest):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "locks", ignore_errors=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def read_chunk(path: Path, lines: int) -> List[List[Hypothesis]]:
    """The hypotheses of each line of a chunk.

    Raises:
        UserError: if the file is damaged or has not that many *lines*.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            found = [[Hypothesis(*one) for one in json.loads(line)] for line in file]
        if len(found) != lines:
            raise ValueError
        return found
    except (OSError, EOFError, zlib.error, ValueError, TypeError):
        raise UserError(
            f"{path} is damaged: delete it, and the same command makes it again"
        ) from None
