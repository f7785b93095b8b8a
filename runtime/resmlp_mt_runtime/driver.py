"""Text in, text out: line by line, in order, written as soon as it is there, and resumed."""

import hashlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path

from resmlp_mt_runtime.capitals import capitals_of, small_letters
from resmlp_mt_runtime.errors import UserError, say
from resmlp_mt_runtime.files import as_written, check_output, lock_file, record_source, source_of
from resmlp_mt_runtime.lines import STDIN, arriving_lines, existing, name_of, read_lines
from resmlp_mt_runtime.pieces import CONTROL, SPACE, has_broken_bytes, one_line
from resmlp_mt_runtime.sentences import Hypothesis, split, translate_parts
from resmlp_mt_runtime.terminal import Progress

# lines that are read and sorted by length together: few at first, so that some are written soon
CHUNK, LARGEST_CHUNK = 128, 2048


def translate(
    load: Callable,
    source: Path,
    output: Path,
    nbest: int = 1,
    resume: bool = False,
    scores: bool = False,
    title: str = "translate",
    made_from: dict | None = None,
) -> int:
    """Write *nbest* lines for each line of a text; ``-`` is a standard stream.

    A stream is translated whenever no further line has arrived; a file in chunks. *load*, called
    once the files are known to be good, gives a Model or an object with its languages, limit,
    pieces, rank and translations. With *resume* the output continues after its last whole
    translation, if it is known to be made from the same text and *made_from*. Returns how many
    lines the text has.
    """
    source = existing(source)
    out = Output(output, source, nbest, scores, made_from or {})
    characters = tokens = left = 0
    is_file, engine = str(source) != STDIN and source.is_file(), None
    with out.opened(resume), _Lost(name_of(source)) as lost:
        if is_file:  # a bad line is refused before hours of work
            left = sum(len(line) + 1 for line in islice(read_lines(source), out.done, None))
        lines = out.rest(arriving_lines(source))
        with Progress(title, None, "tokens") as progress:
            for chunk in _chunks(lines):
                engine = engine or load()
                first, untranslated = out.done + 1, iter(chunk)
                parts = [lost.split(line, n, engine) for n, line in enumerate(chunk, first)]
                characters += sum(len(line) + 1 for line in chunk)
                tokens += sum(len(pieces) for each in parts for pieces in each)
                if is_file:  # as many tokens per character as so far
                    progress.total = round(tokens * left / characters)
                for count, translations in translate_parts(engine, parts, lost.name, first):
                    for number, best in enumerate(translations, out.done + 1):
                        if any(hypothesis.cut for hypothesis in best):
                            lost.cut.append(number)
                        if any(has_broken_bytes(hypothesis.pieces) for hypothesis in best):
                            lost.broken.append(number)
                    if translations:
                        progress.clear()  # standard output may be the same terminal
                        whole = [*islice(untranslated, len(translations))]
                        cased = [capitals_of(*pair, engine) for pair in zip(whole, translations)]
                        out.write(whole, cased)
                    progress.update(count)
    return out.done


def _chunks(lines: Iterable[str | None]) -> Iterator[list[str]]:
    """CHUNK lines, then twice as many each time, up to LARGEST_CHUNK; a None ends a chunk."""
    chunk: list[str] = []
    size = CHUNK
    try:
        for line in chain(lines, [None]):
            if line is not None:
                chunk.append(line)
            if chunk and (line is None or len(chunk) == size):
                if line is not None:
                    size = min(2 * size, LARGEST_CHUNK)
                yield chunk
                chunk = []
    except UserError:  # of a line that has arrived: those before it are translated
        if chunk:
            yield chunk
        raise


class _Lost:
    """Lines to warn of at the end, or when the work stops: divided, cut, or with unknown
    characters."""

    def __init__(self, name: str):
        self.name, self.limit = name, 0
        self.long: list[int] = []  # numbers of lines with a sentence that was translated in parts
        self.cut: list[int] = []  # of those with a translation that was cut
        self.broken: list[int] = []  # of those with bytes that are not a character
        self.unknown: dict[int, str] = {}  # characters that the subwords do not know, by line

    def split(self, line: str, number: int, engine) -> list[list[str]]:
        """The parts of a line, as pieces."""
        self.limit = engine.limit
        parts, is_long = split(small_letters(line, engine), engine.pieces, engine.limit)
        if is_long:
            self.long.append(number)
        pieces = (piece for part in parts for piece in part)
        unknown = "".join(p.replace(SPACE, "") for p in pieces if engine.rank(p) == math.inf)
        if unknown:
            self.unknown[number] = unknown
        return parts

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        limit = f"the {self.limit} tokens that the model reads"
        in_parts = f"a sentence of more than {limit}: translated in parts"
        cut = "the translation may be truncated, at the limit of --max-len-b or of the model"
        broken = "the translation lacks a character: the model spelled it in invalid bytes"
        for lines, what in ((self.long, in_parts), (self.cut, cut), (self.broken, broken)):
            if lines:
                more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
                say(f"warning: {self.name}, line {lines[0]}{more}: {what}")
        if self.unknown:
            line, characters = next(iter(self.unknown.items()))
            count = sum(map(len, self.unknown.values()))
            say(
                f"warning: {self.name}: {count} unknown characters in {len(self.unknown)} lines, "
                f"first {characters[0]!r} in line {line}"
            )


class Output:
    """*nbest* translations of each line, in a file or on standard output (``-``), with *scores* as
    ``SCORE<TAB>TEXT``. Beside a file is recorded what they are made from: *made_from*, and of the
    text the number of lines that are translated, ``done``, and their digest."""

    def __init__(self, path: Path, source: Path, nbest: int, scores: bool, made_from: dict):
        self.path, self.source, self.made_from = Path(path), source, made_from
        self.nbest, self.scores = nbest, scores
        self.done, self._size, self._digest = 0, 0, hashlib.sha256()
        self._recorded = (0, self._digest.hexdigest())
        self._to_file = str(path) != STDIN

    @contextmanager
    def opened(self, resume: bool) -> Iterator[None]:
        """Check and lock the file. Afterwards it is there, if only empty. With *resume* its whole
        translations stay; a UserError if they are not known to be of the same model and options."""
        check_output(self.path, self.source)
        if not self._to_file:
            if resume:
                raise UserError("--resume: name the file to continue with --output")
            yield
            return
        if self.path.suffix == ".gz":
            wrong = "the output is plain text: leave off .gz, or pipe it to gzip"
            raise UserError(f"{self.path}: {wrong}")
        with lock_file(self.path):
            if resume:
                self._find_whole()
            yield
            if not self.done:
                self.write([], [])

    def _find_whole(self) -> None:
        with open(self.path, "rb") as file:  # which may not fit into memory
            lines = sum(line.endswith(b"\n") for line in file)
        if not lines:
            return
        recorded = source_of(self.path) or {}
        for name in sorted({*recorded, *self.made_from} - {"text"}):
            self._refuse_other(name, recorded.get(name) == self.made_from.get(name))
        self._refuse_other("text", isinstance(recorded.get("text"), list))
        with as_written(self.path):
            count, digest = self._recorded = recorded["text"]
            if type(count) is not int or not 0 <= count <= sys.maxsize:
                raise ValueError(f"{count!r:.20} lines")
            self.done = min(lines // self.nbest, count)

    def rest(self, lines: Iterable[str | None]) -> Iterable[str | None]:
        """The *lines* that are not translated yet. Refuses a text that begins with others."""
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
            of = f"{self.path} was made from a text with more lines than {name_of(self.source)}"
            raise UserError(f"--resume: {of}: give that text, or leave out --resume")
        self._refuse_other("text", seen.hexdigest() == digest)
        if self.done:
            with open(self.path, "r+b") as file:
                self._size = sum(map(len, islice(file, self.done * self.nbest)))
                file.truncate(self._size)
        return chain(again, lines)

    def _refuse_other(self, name: str, same: bool) -> None:
        if not same:
            wrong = f"{self.path} is not known to be made with the same {name}"
            raise UserError(f"--resume: {wrong}: without --resume it is overwritten")

    def write(self, lines: Sequence[str], translations: Iterable[Sequence[Hypothesis]]) -> None:
        """Add the n best translations of some *lines*; empty lines where a search found fewer."""
        padded = ([*nbest, *[None] * self.nbest][: self.nbest] for nbest in translations)
        data = "".join(f"{self._line(one)}\n" for nbest in padded for one in nbest).encode()
        if not self._to_file:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            self.done += len(lines)
            return
        try:
            if not self.done:
                self._record()  # what the file held before does not count from here
            with open(self.path, "r+b" if self.done else "wb") as file:
                if file.seek(0, os.SEEK_END) != self._size:
                    wrong = f"{self.path} was changed by another program"
                    raise UserError(f"{wrong}: translate the text again")
                file.write(data)
                self._size = file.tell()
            for line in lines:
                _add(self._digest, line)
            self.done += len(lines)
            self._record()
        except OSError as error:
            wrong = f"{self.path} could not be written: {error.strerror}"
            raise UserError(f"{wrong}: --resume continues from there") from None

    def _record(self) -> None:
        text = [self.done, self._digest.hexdigest()]
        record_source(self.path, {**self.made_from, "text": text})

    def _line(self, hypothesis: Hypothesis | None) -> str:
        # a terminal acts on control characters, which a dictionary may have
        text = one_line(CONTROL.sub("", hypothesis.text)) if hypothesis else ""
        if not self.scores:
            return text
        return f"{hypothesis.score:.4f}\t{text}" if hypothesis else "\t"


def _add(digest, line: str) -> None:
    digest.update(f"{line}\n".encode())
