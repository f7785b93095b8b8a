"""Text in, text out: line by line, in order, written as soon as it is there."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from resmlp_mt_runtime.errors import say
from resmlp_mt_runtime.lines import STDIN, arriving_lines, existing, name_of, read_lines
from resmlp_mt_runtime.output import Output
from resmlp_mt_runtime.pieces import SPACE
from resmlp_mt_runtime.progress import Progress
from resmlp_mt_runtime.sentences import Engine, split, translate_parts

# lines that are read and sorted by length together: few at first, so that some are written soon
CHUNK, LARGEST_CHUNK = 128, 2048


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
    once the files are known to be good. A blank line gives empty lines. With *resume* the output
    continues after its last whole translation, if it is known to be made from the same text and
    *made_from*. Returns how many lines the text has.
    """
    out, lost = Output(output, source, nbest, scores, made_from or {}), _Lost(name_of(source))
    characters = tokens = left = 0
    is_file, engine = str(source) != STDIN and existing(source).is_file(), None
    with out.opened(resume):
        if is_file:  # a bad line is refused before hours of work
            left = sum(len(line) + 1 for line in islice(read_lines(source), out.done, None))
        lines = out.rest(arriving_lines(source))
        with Progress(title, None, "tokens") as progress:
            for chunk in _chunks(lines):
                engine = engine or load()
                first = out.done + 1
                parts = [lost.split(line, n, engine) for n, line in enumerate(chunk, first)]
                characters += sum(len(line) + 1 for line in chunk)
                tokens += sum(len(pieces) for each in parts for pieces in each)
                if is_file:  # as many tokens per character as so far
                    progress.total = round(tokens * left / characters)
                for count, translations in translate_parts(engine, parts, lost.name, first):
                    progress.update(count)
                    begin = out.done - first + 1
                    cut = enumerate((any(x.cut for x in each) for each in translations), out.done)
                    lost.cut += (number + 1 for number, is_cut in cut if is_cut)
                    if translations:
                        out.write(chunk[begin : begin + len(translations)], translations)
    lost.warn()
    return out.done


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


class _Lost:
    """What of a text is not translated as it is."""

    def __init__(self, name: str):
        self.name, self.limit = name, 0
        self.long: list[int] = []  # numbers of lines with a sentence that was translated in parts
        self.cut: list[int] = []  # of those with a translation that was cut
        self.unknown: dict[int, str] = {}  # characters that the subwords do not know, by line

    def split(self, line: str, number: int, engine: Engine) -> list[list[str]]:
        """The parts of a line, as pieces."""
        self.limit = engine.limit
        parts, is_long = split(line, engine.pieces, engine.limit)
        if is_long:
            self.long.append(number)
        pieces = (piece for part in parts for piece in part)
        unknown = "".join(p.replace(SPACE, "") for p in pieces if not engine.knows(p))
        if unknown:
            self.unknown[number] = unknown
        return parts

    def warn(self) -> None:
        """Print which lines they are."""
        for lines, what in (
            (
                self.long,
                f"a sentence of more than the {self.limit} tokens that the model reads: translated "
                "in parts",
            ),
            (
                self.cut,
                "the translation was cut at the most tokens that it may have: see --max-len-b",
            ),
        ):
            if lines:
                more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
                say(f"warning: {self.name}, line {lines[0]}{more}: {what}")
        if self.unknown:
            line, characters = next(iter(self.unknown.items()))
            count = sum(map(len, self.unknown.values()))
            say(
                f"warning: {self.name}: the subwords do not know {count} characters in "
                f"{len(self.unknown)} lines, first {characters[0]!r} in line {line}"
            )
