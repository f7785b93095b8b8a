"""Where translations go, and what is known of those that are there when a translation resumes."""

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path

from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import as_written, check_output, lock_file, record_source, source_of
from resmlp_mt_runtime.lines import name_of
from resmlp_mt_runtime.pieces import one_line
from resmlp_mt_runtime.sentences import Hypothesis

STDOUT = "-"


class Output:
    """*nbest* translations of each line, in a file or on standard output (``-``), with *scores* as
    ``SCORE<TAB>TEXT``. Beside a file is recorded what they are made from: *made_from*, and of the
    text the number of lines that are translated and their digest.

    Attributes:
        done: lines of the text that are translated.
    """

    def __init__(self, path: Path, source: Path, nbest: int, scores: bool, made_from: dict):
        self.path, self.source, self.made_from = Path(path), source, made_from
        self.nbest, self.scores = nbest, scores
        self.done, self._digest = 0, hashlib.sha256()
        self._recorded = (0, self._digest.hexdigest())
        self._to_file, self._length = str(path) != STDOUT, 0  # bytes that stay

    @contextmanager
    def opened(self, resume: bool) -> Iterator[None]:
        """Check and lock the file. Afterwards it is there, if only empty. With *resume* its whole
        translations stay; a UserError if they are not known to be of the same model and options."""
        if not self._to_file:
            if resume:
                raise UserError("--resume: name the file to continue with --output")
            yield
            return
        check_output(self.path, self.source)
        if self.path.suffix == ".gz":
            wrong = "plain text is written: leave off .gz, or pipe it to gzip"
            raise UserError(f"{self.path}: {wrong}")
        with lock_file(self.path):
            if resume:
                self._find_whole()
            yield
            if not self.done:
                self.write([], [])

    def _find_whole(self) -> None:
        lines = self.path.read_bytes().split(b"\n")[:-1]
        if not (whole := len(lines) // self.nbest):
            return
        recorded = source_of(self.path) or {}
        for name, value in self.made_from.items():
            self._refuse_other(name, recorded.get(name) == value)
        self._refuse_other("text", isinstance(recorded.get("text"), list))
        with as_written(self.path):
            count, digest = self._recorded = recorded["text"]
            if type(count) is not int or not 0 <= count <= sys.maxsize:
                raise ValueError(f"{count!r:.20} lines")
            self.done = min(whole, count)
        self._length = sum(len(line) + 1 for line in lines[: self.done * self.nbest])

    def rest(self, lines: Iterable[str | None]) -> Iterable[str | None]:
        """The *lines* of the text that are not translated yet. Refuses a text that begins with
        others than those that were."""
        count, digest = self._recorded
        read, seen, again, lines = 0, hashlib.sha256(), [], iter(lines)
        for line in islice((line for line in lines if line is not None), count):
            _add(seen, line)
            read += 1
            if read <= self.done:
                self._digest = seen.copy()
            else:  # someone shortened the file
                again.append(line)
        if read < count:
            of = f"{self.path} is of a text with more lines than {name_of(self.source)}"
            raise UserError(f"--resume: {of}: give that text, or leave out --resume")
        self._refuse_other("text", seen.hexdigest() == digest)
        if self.done:
            os.truncate(self.path, self._length)
        return chain(again, lines)

    def _refuse_other(self, name: str, same: bool) -> None:
        if not same:
            raise UserError(
                f"--resume: {self.path} is not known to be made from this {name}: leave out "
                "--resume to translate from the first line"
            )

    def write(self, lines: Sequence[str], translations: Iterable[Sequence[Hypothesis]]) -> None:
        """Add the n best translations of some *lines*; empty lines for those that a search does
        not have."""
        data = "".join(
            f"{self._line(nbest[n] if n < len(nbest) else None)}\n"
            for nbest in translations
            for n in range(self.nbest)
        ).encode()
        if not self._to_file:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            self.done += len(lines)
            return
        try:
            if not self.done:
                self._record()  # what the file held before does not count from here
            with open(self.path, "ab" if self.done else "wb") as file:
                file.write(data)
            for line in lines:
                _add(self._digest, line)
            self.done += len(lines)
            self._record()
        except OSError as error:
            raise UserError(
                f"{self.path} could not be written: {error.strerror}: --resume continues from there"
            ) from None

    def _record(self) -> None:
        text = [self.done, self._digest.hexdigest()]
        record_source(self.path, {**self.made_from, "text": text})

    def _line(self, hypothesis: Hypothesis | None) -> str:
        text = one_line(hypothesis.text) if hypothesis else ""
        if not self.scores:
            return text
        return f"{hypothesis.score:.4f}\t{text}" if hypothesis else "\t"


def _add(digest, line: str) -> None:
    digest.update(f"{line}\n".encode())
