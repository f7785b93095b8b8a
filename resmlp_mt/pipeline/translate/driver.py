"""Text in, text out: line by line, in order, written as soon as it is there."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import chain, islice, zip_longest
from pathlib import Path
from statistics import fmean
from typing import NamedTuple, Protocol

from resmlp_mt.errors import UserError, say
from resmlp_mt.files import check_output, lock_file, record_source, source_of
from resmlp_mt.progress import Progress
from resmlp_mt.text.lines import (
    STDIN,
    arriving_lines,
    existing,
    name_of,
    one_line,
    read_lines,
    sha256_of,
)
from resmlp_mt_runtime.pieces import SPACE
from resmlp_mt_runtime.sentences import join, split

# lines that are read and sorted by length together: few at first, so that some are written soon
CHUNK, LARGEST_CHUNK = 128, 2048
STDOUT = STDIN


class Hypothesis(NamedTuple):
    """Detokenized text, its log probability divided by length to the power of the penalty, and
    whether it ended because it had as many tokens as it may."""

    text: str
    score: float
    cut: bool = False


class Engine(Protocol):
    """A ``Translator`` or an ``ExportEngine``: translates sources of at most *limit* pieces.

    ``translations`` yields the n best of each source by its index, batch by batch; an empty list
    means that the scores are not finite.
    """

    limit: int

    def pieces(self, line: str) -> list[str]: ...
    def knows(self, piece: str) -> bool: ...
    def translations(
        self, sources: Sequence[list[str]]
    ) -> Iterator[dict[int, list[Hypothesis]]]: ...


def with_text(source: Path, made_from: dict) -> dict:
    """What translations are made from: the text, if it is a file, and what the caller adds."""
    return {"text": sha256_of(existing(source)) if _is_file(source) else None, **made_from}


def translate(
    load: Callable[[], Engine],
    source: Path,
    output: Path,
    nbest: int = 1,
    resume: bool = False,
    title: str = "translate",
    scores: bool = False,
    made_from: dict | None = None,
) -> int:
    """Write *nbest* lines for each line of a text; ``-`` is a standard stream.

    A stream is translated whenever no further line has arrived; a file in chunks. *load* is called
    once the files are known to be good. A blank line gives empty lines, as does an n-th translation
    that the search does not have. With *scores* a line is ``SCORE<TAB>TEXT``. With *resume* the
    output continues after its last whole line, unless another source than *made_from* is recorded.
    Returns how many lines the text has.
    """
    if str(output) != STDOUT:
        check_output(output, source)
        if Path(output).suffix == ".gz":
            raise UserError(f"{output}: plain text is written: leave off .gz, or pipe it to gzip")
    elif resume:
        raise UserError("--resume: name the file to continue with --output")
    text, out = _Text(source), _Output(Path(output), nbest, scores, made_from)
    with lock_file(output) if str(output) != STDOUT else nullcontext():
        done = out.resume() if resume else 0
        lines, engine = arriving_lines(source), None
        if text.skip(lines, done) < done:
            raise UserError(
                f"--resume: {output} has more lines than {text.name}: it is of another text"
            )
        with Progress(title, text.size, "tokens") as progress:
            for chunk in _chunks(lines):
                engine = engine or load()
                for translated in filter(None, text.translated(engine, chunk, progress)):
                    out.write(translated)
        out.write([])  # makes the file where the text is empty
    text.warn()
    return text.lines


def _is_file(source: Path) -> bool:
    return str(source) != STDIN and existing(source).is_file()


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
    """A text under translation: counts its lines and collects the warnings."""

    def __init__(self, source: Path):
        self.name, self.lines, self.limit = name_of(source), 0, 0
        self.long: list[int] = []  # numbers of lines with a sentence that was translated in parts
        self.cut: list[int] = []  # of those with a translation that was cut
        self.unknown: dict[int, str] = {}  # characters that the subwords do not know, by line
        self.characters = self.tokens = 0  # read so far
        self.size: int | None = None  # characters to translate, if they can be counted
        if _is_file(source):  # a bad line is refused before hours of work
            self.size = sum(len(line) + 1 for line in read_lines(source))

    def skip(self, lines: Iterator[str | None], count: int) -> int:
        """Leave out the first *count* lines; returns how many there were."""
        for line in islice((line for line in lines if line is not None), count):
            self.lines += 1
            if self.size is not None:
                self.size -= len(line) + 1
        return self.lines

    def translated(
        self, engine: Engine, lines: list[str], progress: Progress
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
            joined = [_joined([done.pop(i) for i in part]) for part in parts[begin:written]]
            first = self.lines - len(parts) + begin + 1
            self.cut += (n for n, nbest in enumerate(joined, first) if any(x.cut for x in nbest))
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


def _joined(parts: list[list[Hypothesis]]) -> list[Hypothesis]:
    """The n-th translations of the parts of a line, for each n that any part has: their texts, and
    their mean score."""
    nths = ([one for one in nth if one is not None] for nth in zip_longest(*parts))
    return [
        Hypothesis(
            join(one.text for one in nth),
            fmean(one.score for one in nth),
            any(one.cut for one in nth),
        )
        for nth in nths
    ]


def _first_of(lines: list[int]) -> str:
    return f"{lines[0]} and {len(lines) - 1} more" if len(lines) > 1 else f"{lines[0]}"


class _Output:
    """Where translations go: *nbest* lines for each line."""

    def __init__(self, path: Path, nbest: int, scores: bool, made_from: dict | None):
        self.path, self.nbest, self.scores, self.made_from = path, nbest, scores, made_from
        self.begun = False

    def resume(self) -> int:
        """Truncate the file to whole translations; returns how many lines they are of."""
        lines = self.path.read_bytes().split(b"\n")[:-1]
        whole = len(lines) // self.nbest
        if not whole:
            return 0
        recorded, made_from = source_of(self.path) or {}, self.made_from or {}
        other = [name for name, value in made_from.items() if recorded.get(name) != value]
        if other:
            raise UserError(
                f"--resume: {self.path} is not known to be made from this {other[0]}: leave out "
                "--resume to translate from the first line"
            )
        os.truncate(self.path, sum(len(line) + 1 for line in lines[: whole * self.nbest]))
        self.begun = True
        return whole

    def write(self, lines: Iterable[list[Hypothesis]]) -> None:
        """Add the n best translations of each line."""
        data = "".join(
            f"{self._line(hypotheses[n] if n < len(hypotheses) else None)}\n"
            for hypotheses in lines
            for n in range(self.nbest)
        ).encode()
        if str(self.path) == STDOUT:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            return
        try:
            with open(self.path, "ab" if self.begun else "wb") as file:
                if not self.begun and self.made_from is not None:
                    record_source(self.path, self.made_from)
                file.write(data)
        except OSError as error:
            raise UserError(
                f"{self.path} could not be written: {error.strerror}: --resume continues from there"
            ) from None
        self.begun = True

    def _line(self, hypothesis: Hypothesis | None) -> str:
        text = one_line(hypothesis.text) if hypothesis else ""
        if not self.scores:
            return text
        return f"{hypothesis.score:.4f}\t{text}" if hypothesis else "\t"
