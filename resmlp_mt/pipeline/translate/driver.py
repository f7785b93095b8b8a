"""Text in, text out: a line for a line, in order."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import zip_longest
from pathlib import Path
from typing import Protocol

from resmlp_mt.errors import UserError
from resmlp_mt.files import check_output, lock_file
from resmlp_mt.progress import Progress
from resmlp_mt.text.lines import STDIN, name_of, one_line, read_lines
from resmlp_mt.text.subwords import SPACE

CHUNK = 1024  # lines that are sorted by length together, and written together
STDOUT = STDIN
# where a line that is longer than the model reads is cut
ENDS = (".", "!", "?", "…")  # of a sentence, where a space follows
ENDS_ANYWHERE = ("。", "！", "？")  # no space follows them
CLOSING = "\"'”’»)]」』"


class Engine(Protocol):
    """What translates pieces, at most *limit* a source: a ``Translator`` or an ``ExportEngine``."""

    limit: int

    def pieces(self, line: str) -> list[str]: ...
    def knows(self, piece: str) -> bool: ...
    def translations(self, sources: Sequence[list[str]]) -> Iterator[dict[int, list[str]]]: ...


def translate(
    load: Callable[[], Engine],
    source: Path,
    output: Path,
    nbest: int = 1,
    resume: bool = False,
    title: str = "translate",
) -> dict:
    """Write *nbest* lines for each line of a text, as they are made; ``-`` is a standard stream.

    *load* is called once the files are known to be good. A blank line gives empty lines, as does an
    n-th translation that the search does not have. With *resume* the output goes on after its last
    whole line. Returns ``lines`` of the text, ``blank`` ones, and ``seconds``.
    """
    if str(output) != STDOUT:
        check_output(output, source)
        if Path(output).suffix == ".gz":
            raise UserError(f"{output}: plain text is written: leave off .gz, or pipe it to gzip")
    elif resume:
        raise UserError("--resume: name the file to go on with by --output")
    lines = list(read_lines(source))
    text, start = _Text(name_of(source)), time.monotonic()
    with lock_file(output) if str(output) != STDOUT else nullcontext():
        done = _keep_whole_lines(Path(output), nbest) if resume else 0
        if done > len(lines):
            raise UserError(
                f"--resume: {output} has more lines than {text.name}: it is of another text"
            )
        if not lines:
            _write(output, iter(()), first=True)
        if done < len(lines):
            engine = load()
            with Progress(title, len(lines), "lines", done) as progress:
                for begin in range(done, len(lines), CHUNK):
                    chunk = text.translated(engine, lines[begin : begin + CHUNK], begin, progress)
                    texts = (n[i] if i < len(n) else "" for n in chunk for i in range(nbest))
                    _write(output, map(one_line, texts), first=begin == 0)
    text.warn()
    seconds = round(time.monotonic() - start, 3)
    return {"lines": len(lines), "blank": text.blank, "seconds": seconds}


class _Text:
    """A text under translation, and what is to be said of it at the end."""

    def __init__(self, name: str):
        self.name, self.blank, self.limit = name, 0, 0
        self.long: list[int] = []  # numbers of lines that were translated in parts
        self.unknown: dict[int, str] = {}  # characters that the subwords do not know, by line

    def translated(
        self, engine: Engine, lines: list[str], begin: int, progress: Progress
    ) -> list[list[str]]:
        """The n best translations of each line. *begin* lines come before the first."""
        self.limit = engine.limit
        sources: list[list[str]] = []
        parts = []  # the sources of each line
        for number, line in enumerate(lines, begin + 1):
            pieces = engine.pieces(line)
            unknown = "".join(p.replace(SPACE, "") for p in pieces if not engine.knows(p))
            if unknown:
                self.unknown[number] = unknown
            of_line = split(pieces, engine.limit)
            if len(of_line) > 1:
                self.long.append(number)
            self.blank += not of_line
            parts.append(range(len(sources), len(sources) + len(of_line)))
            sources.extend(of_line)
        found: dict[int, list[str]] = {}
        ends = {part.stop - 1 for part in parts if part}
        progress.update(len(lines) - len(ends))
        for some in engine.translations(sources):
            found.update(some)
            progress.update(len(ends & some.keys()))
        lost = [n for n, part in enumerate(parts, begin + 1) if not all(found[i] for i in part)]
        if lost:
            raise UserError(
                f"{self.name}, line {_first_of(lost)}: no translation, because the scores of the "
                "model are NaN or infinite there: translate without --fp16, or take an earlier "
                "checkpoint"
            )
        # the n-th translations of the parts, for each n; a part may have fewer than others
        nths = [zip_longest(*(found[i] for i in part)) for part in parts]
        return [[" ".join(filter(None, nth)) for nth in some] for some in nths]

    def warn(self) -> None:
        """Say on standard error which lines were not translated as they stand."""
        if self.long:
            print(
                f"warning: {self.name}, line {_first_of(self.long)}: more than the {self.limit} "
                "pieces that the model reads: translated in parts",
                file=sys.stderr,
            )
        if self.unknown:
            line, characters = next(iter(self.unknown.items()))
            count = sum(map(len, self.unknown.values()))
            print(
                f"warning: {self.name}: the subwords do not know {count} characters in "
                f"{len(self.unknown)} lines, first {characters[0]!r} in line {line}",
                file=sys.stderr,
            )


def _first_of(lines: list[int]) -> str:
    return f"{lines[0]} and {len(lines) - 1} more" if len(lines) > 1 else f"{lines[0]}"


def _keep_whole_lines(output: Path, nbest: int) -> int:
    """Cut a file behind its last whole *nbest* lines; gives how many times it has them."""
    lines = output.read_bytes().split(b"\n")[:-1]
    whole = len(lines) // nbest
    os.truncate(output, sum(len(line) + 1 for line in lines[: whole * nbest]))
    return whole


def _write(output: Path, lines: Iterator[str], first: bool) -> None:
    """Add lines to what was written; *first* begins the file."""
    data = "".join(f"{line}\n" for line in lines).encode()
    if str(output) == STDOUT:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        with open(output, "wb" if first else "ab") as file:
            file.write(data)
    except OSError as error:
        raise UserError(
            f"{output} could not be written: {error.strerror}: --resume goes on from there"
        ) from None


def split(pieces: list[str], limit: int) -> list[list[str]]:
    """Parts of at most *limit* pieces; no part for no pieces, one for a line that fits."""
    if len(pieces) <= limit:
        return [pieces] if pieces else []
    return [part for sentence in _sentences(pieces) for part in _cut(sentence, limit)]


def _sentences(pieces: list[str]) -> Iterator[list[str]]:
    start = 0
    for i in range(1, len(pieces)):
        before = "".join(pieces[max(start, i - 3) : i]).rstrip(CLOSING)
        spaced = pieces[i].startswith(SPACE) and before.endswith(ENDS)
        if spaced or (before.endswith(ENDS_ANYWHERE) and pieces[i] not in CLOSING):
            yield pieces[start:i]
            start = i
    yield pieces[start:]


def _cut(sentence: list[str], limit: int) -> Iterator[list[str]]:
    """At the last word that begins within the limit, or at the limit where none does."""
    while len(sentence) > limit:
        at = next((i for i in range(limit, 0, -1) if sentence[i].startswith(SPACE)), limit)
        yield sentence[:at]
        sentence = sentence[at:]
    yield sentence
