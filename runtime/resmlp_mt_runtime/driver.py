"""Text in, text out: line by line, in order, written as soon as it is there."""

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

from resmlp_mt_runtime.errors import UserError, say
from resmlp_mt_runtime.files import as_written, check_output, lock_file, record_source, source_of
from resmlp_mt_runtime.lines import STDIN, Source
from resmlp_mt_runtime.pieces import SPACE, one_line
from resmlp_mt_runtime.sentences import Hypothesis, join_parts, split

# lines that are read and sorted by length together: few at first, so that some are written soon
CHUNK, LARGEST_CHUNK = 128, 2048
STDOUT = STDIN


class Engine(Protocol):
    """A model: translates sources of at most *limit* pieces.

    ``translations`` yields the n best of each source by its index, batch by batch; an empty list
    means that the scores are not finite.
    """

    limit: int

    def pieces(self, line: str) -> list[str]: ...
    def knows(self, piece: str) -> bool: ...
    def translations(
        self, sources: Sequence[list[str]]
    ) -> Iterator[dict[int, list[Hypothesis]]]: ...


class Silent:
    """Progress that is not shown."""

    total: int | None

    def __init__(self, title: str, total: int | None, unit: str): ...
    def __enter__(self) -> "Silent":
        return self

    def __exit__(self, *_) -> None: ...
    def update(self, n: int) -> None: ...


def translate(
    load: Callable[[], Engine],
    source: Source,
    output: Path,
    nbest: int = 1,
    resume: bool = False,
    title: str = "translate",
    scores: bool = False,
    made_from: dict | None = None,
    progress: Callable = Silent,
) -> int:
    """Write *nbest* lines for each line of a text; ``-`` is standard output.

    A stream is translated whenever no further line has arrived; a file in chunks. *load* is called
    once the files are known to be good. A blank line gives empty lines, as does an n-th translation
    that the search does not have. With *scores* a line is ``SCORE<TAB>TEXT``. With *resume* the
    output continues after its last whole line, unless it is of another text or something else than
    *made_from* is recorded. *progress* is called with a title, the number of units if that is
    known, and their name, as tqdm. Returns how many lines the text has.
    """
    if str(output) != STDOUT:
        check_output(output, source.path)
        if Path(output).suffix == ".gz":
            raise UserError(f"{output}: plain text is written: leave off .gz, or pipe it to gzip")
    elif resume:
        raise UserError("--resume: name the file to continue with --output")
    text, out = _Text(source), _Output(Path(output), nbest, scores, made_from)
    with lock_file(output) if str(output) != STDOUT else nullcontext():
        done = out.resume(source) if resume else 0
        lines, engine = source.lines(), None
        if text.skip(lines, done) < done:
            raise UserError(
                f"--resume: {output} has more lines than {text.name}: it is of another text"
            )
        out.check(text.digest)
        with progress(title, text.size, "tokens") as shown:
            for chunk in _chunks(lines):
                engine = engine or load()
                for translated in filter(None, text.translated(engine, chunk, shown)):
                    out.write(translated, text)
        out.write([], text)  # makes the file where the text is empty
    text.warn()
    return text.lines


def _chunks(lines: Iterable[str | None]) -> Iterator[list[str]]:
    """CHUNK lines, then twice as many each time, up to LARGEST_CHUNK; fewer where no further line
    has arrived, which a None says."""
    chunk: list[str] = []
    size = CHUNK
    for line in lines:
        if line is not None:
            chunk.append(line)
        if chunk and (line is None or len(chunk) == size):
            if line is not None:
                size = min(2 * size, LARGEST_CHUNK)
            yield chunk
            chunk = []
    if chunk:
        yield chunk


class _Text:
    """A text under translation: counts its lines and collects the warnings.

    Attributes:
        origin: what tells it from others: the digest of a file, or that of the lines of a stream
            that were translated, and their number.
    """

    def __init__(self, source: Source):
        self.name, self.lines, self.limit = source.name, 0, 0
        self.done, self.digest, self._of_file = 0, hashlib.sha256(), source.digest
        self.long: list[int] = []  # numbers of lines with a sentence that was translated in parts
        self.cut: list[int] = []  # of those with a translation that was cut
        self.unknown: dict[int, str] = {}  # characters that the subwords do not know, by line
        self.characters = self.tokens = 0  # read so far
        self.size = source.size  # characters to translate, if they can be counted

    @property
    def origin(self) -> str | list:
        return self._of_file or [self.done, self.digest.hexdigest()]

    def _finish(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.done += 1
            self.digest.update(f"{line}\n".encode())

    def skip(self, lines: Iterator[str | None], count: int) -> int:
        """Leave out the first *count* lines; returns how many there were."""
        for line in islice((line for line in lines if line is not None), count):
            self.lines += 1
            self._finish([line])
            if self.size is not None:
                self.size -= len(line) + 1
        return self.lines

    def translated(
        self, engine: Engine, lines: list[str], progress
    ) -> Iterator[list[list[Hypothesis]]]:
        """The n best translations of each line: as many lines at a time as are complete."""
        self.limit = engine.limit
        sources: list[list[str]] = []
        numbers: list[int] = []  # the line of each source
        parts: list[range] = []  # the sources of each line
        for line in lines:
            self.lines += 1
            of_line, is_long = split(line, engine.pieces, engine.limit)
            pieces = list(chain(*of_line))
            unknown = "".join(p.replace(SPACE, "") for p in pieces if not engine.knows(p))
            if unknown:
                self.unknown[self.lines] = unknown
            if is_long:
                self.long.append(self.lines)
            parts.append(range(len(sources), len(sources) + len(of_line)))
            sources += of_line
            numbers += [self.lines] * len(of_line)
            self.characters += len(line) + 1
            self.tokens += len(pieces)
        if self.size is not None:  # as many tokens per character as so far
            progress.total = round(self.tokens * self.size / self.characters)
        done: dict[int, list[Hypothesis]] = {}
        written = 0
        for batch in chain([{}], engine.translations(sources)):  # {}: blank lines come first
            lost = sorted({numbers[i] for i, nbest in batch.items() if not nbest})
            if lost:
                raise UserError(
                    f"{self.name}, line {_first_of(lost)}: no translation, because the scores of "
                    "the model are NaN or infinite there: translate without --fp16, or take an "
                    "earlier checkpoint"
                )
            done.update(batch)
            progress.update(sum(len(sources[i]) for i in batch))
            begin = written
            while written < len(parts) and all(i in done for i in parts[written]):
                written += 1
            joined = [join_parts([done.pop(i) for i in part]) for part in parts[begin:written]]
            first = self.lines - len(parts) + begin + 1
            self.cut += (n for n, nbest in enumerate(joined, first) if any(x.cut for x in nbest))
            self._finish(lines[begin:written])
            yield joined

    def warn(self) -> None:
        """Print which lines were not translated as they are."""
        if self.long:
            say(
                f"warning: {self.name}, line {_first_of(self.long)}: a sentence of more than the "
                f"{self.limit} tokens that the model reads: translated in parts"
            )
        if self.cut:
            say(
                f"warning: {self.name}, line {_first_of(self.cut)}: the translation was cut at the "
                "most tokens that it may have: see --max-len-b"
            )
        if self.unknown:
            line, characters = next(iter(self.unknown.items()))
            count = sum(map(len, self.unknown.values()))
            say(
                f"warning: {self.name}: the subwords do not know {count} characters in "
                f"{len(self.unknown)} lines, first {characters[0]!r} in line {line}"
            )


def _first_of(lines: list[int]) -> str:
    return f"{lines[0]} and {len(lines) - 1} more" if len(lines) > 1 else f"{lines[0]}"


class _Output:
    """Where translations go: *nbest* lines for each line."""

    def __init__(self, path: Path, nbest: int, scores: bool, made_from: dict | None):
        self.path, self.nbest, self.scores, self.made_from = path, nbest, scores, made_from
        self.begun, self._expected = False, ""

    def resume(self, source: Source) -> int:
        """Truncate the file to whole translations; returns how many lines they are of."""
        lines = self.path.read_bytes().split(b"\n")[:-1]
        whole = len(lines) // self.nbest
        if not whole:
            return 0
        if self.made_from is not None:
            recorded = source_of(self.path) or {}
            for name, value in self.made_from.items():
                self._refuse_other(name, recorded.get(name) == value)
            text = recorded.get("text")
            if isinstance(text, list):  # of a stream: lines, and their digest
                with as_written(self.path):
                    count, self._expected = text
                    self._refuse_other("text", count <= whole)
                    whole = count
            else:
                self._refuse_other("text", text is not None and text == source.digest)
        os.truncate(self.path, sum(len(line) + 1 for line in lines[: whole * self.nbest]))
        self.begun = True
        return whole

    def check(self, digest) -> None:
        """Refuse a text whose first lines are not those that were translated."""
        self._refuse_other("text", self._expected in ("", digest.hexdigest()))

    def _refuse_other(self, name: str, same: bool) -> None:
        if not same:
            raise UserError(
                f"--resume: {self.path} is not known to be made from this {name}: leave out "
                "--resume to translate from the first line"
            )

    def write(self, lines: Iterable[list[Hypothesis]], text: _Text) -> None:
        """Add the n best translations of each line of the *text*."""
        data = "".join(
            f"{self._line(hypotheses[n] if n < len(hypotheses) else None)}\n"
            for hypotheses in lines
            for n in range(self.nbest)
        ).encode()
        if str(self.path) == STDOUT:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        is_stream = isinstance(text.origin, list)
        try:
            with open(self.path, "ab" if self.begun else "wb") as file:
                if not self.begun and not is_stream:
                    self._record(text)
                file.write(data)
            if is_stream:  # what is recorded is there
                self._record(text)
        except OSError as error:
            raise UserError(
                f"{self.path} could not be written: {error.strerror}: --resume continues from there"
            ) from None
        self.begun = True

    def _record(self, text: _Text) -> None:
        if self.made_from is not None:
            record_source(self.path, {"text": text.origin, **self.made_from})

    def _line(self, hypothesis: Hypothesis | None) -> str:
        text = one_line(hypothesis.text) if hypothesis else ""
        if not self.scores:
            return text
        return f"{hypothesis.score:.4f}\t{text}" if hypothesis else "\t"
