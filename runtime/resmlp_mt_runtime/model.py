"""A model of an exported folder: text in, text out."""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice, repeat, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from resmlp_mt_runtime.arguments import COUNT, RANGES, Range
from resmlp_mt_runtime.capitals import capitals_of, small_letters
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.folder import BOS, EOS, PAD, SUBWORDS, UNKNOWN, read_export
from resmlp_mt_runtime.lines import strings
from resmlp_mt_runtime.native import NativeEngine, load_library
from resmlp_mt_runtime.numpy_engine import NumpyEngine
from resmlp_mt_runtime.pieces import SPACE, Subwords, one_line, without_bytes
from resmlp_mt_runtime.sentences import Hypothesis, by_length, split, translate_parts

Pieces = Sequence[str]
CHUNK = 512  # lines that are sorted by length together
QUOTA = Path("/sys/fs/cgroup/cpu.max")  # microseconds of CPU time per period, and the period


class Score(NamedTuple):
    """The score that a search would give a translation, the sum of *log_probs* / length ** lenpen,
    and the natural log probabilities of its pieces and of its end."""

    score: float
    pieces: list[str]
    log_probs: list[float]


class Model:
    """The model in a *folder* that `resmlp-mt export` wrote.

    *engine* is ``native``, the C++ library and the default if it is built, or ``numpy``. *threads*
    is the number of the library's threads, by default one for each CPU of the process. *search*
    overrides the folder's search options, named as in :meth:`translations`. Raises a UserError if
    the folder is not an export or an option is out of range.

    Attributes:
        config: the contents of config.json.
        engine: ``native`` or ``numpy``.
        languages: those of the source and of the target.
        limit: the most tokens of a source that the model reads, without its end.
    """

    def __init__(self, folder, engine: str | None = None, threads: int | None = None, **search):
        if engine not in (None, "native", "numpy"):
            raise UserError(f"engine {engine!r}: give native or numpy")
        if threads is not None and not COUNT.has(threads):
            raise UserError(f"threads {threads!r}: give {COUNT}")
        given = {"folder": os.path.abspath(folder), "engine": engine, "threads": threads}
        self._given = given | search
        export = read_export(folder)
        self.config, (self._source, self._target) = export.config, export.tokens
        self.languages = tuple(self.config["languages"])
        self.limit = self.config["positions"][0] - 1
        self._index = [{piece: i for i, piece in enumerate(tokens)} for tokens in export.tokens]
        self._subwords = Subwords(Path(folder, SUBWORDS), self.config["rule"], export.subwords)
        self._options = {"nbest": 1, "max_tokens": 4096}
        try:
            self._options = self._checked(self.config["search"])
        except UserError as error:
            raise UserError(f"{folder}: {error}") from None
        self._options = self._checked(search)
        library = None if engine == "numpy" else load_library()
        if library is None and engine == "native":
            raise UserError("engine native: not built: install the runtime with GCC or Clang")
        self.engine = "native" if library else "numpy"
        try:
            native = library and NativeEngine(library, export, threads or count_cpus())
            self._engine: Any = native or NumpyEngine(export)
        except MemoryError:
            raise UserError("out of memory: close other programs, or export with --int8") from None

    def __reduce__(self):
        """A pickled model, in another process, is loaded from its folder."""
        return partial(Model, **self._given), ()

    def pieces(self, line: str) -> list[str]:
        """The pieces of a line; none if it is blank."""
        return self._subwords.encode(line)

    def rank(self, piece: str) -> float:
        """Its place in the dictionary of the source, the most frequent first; infinite if it is not
        there."""
        return self._index[0].get(piece, math.inf)

    def translate(self, lines: Iterable[str], **options) -> list[str]:
        """The best translation of each line, ``""`` for a blank one; options of :meth:`stream`."""
        return [found[0].text if found else "" for found in self.stream(lines, **options)]

    def stream(
        self, lines: Iterable[str], prefixes: Iterable[str] | None = None, **search
    ) -> Iterator[list[Hypothesis]]:
        """Yield the translations of each line, the best first, none for a blank one, while lines
        are still being read. 512 are read ahead and sorted by length. Lines of several sentences
        are translated in parts, lines in capitals in small letters. With *prefixes*, each
        translation begins with its own, and its line is translated as it is, and as a whole if the
        model reads that many tokens. Options as in :meth:`translations`.
        """
        first, starts = 1, map(self.pieces, strings(prefixes or ()))
        pairs = zip_longest(strings(lines), starts) if prefixes else zip(strings(lines), repeat([]))
        while chunk := list(islice(pairs, CHUNK)):
            parts, search["prefixes"] = [], []
            for line, start in chunk:
                if prefixes and (line is None or start is None):
                    raise UserError("prefixes: give one for each line, or none")
                pieces = self.pieces(line) if start else []
                whole = 0 < len(pieces) <= self.limit
                text = line if start else small_letters(line, self)
                parts.append([pieces] if whole else split(text, self.pieces, self.limit)[0])
                search["prefixes"] += [start if i == 0 else [] for i in range(len(parts[-1]))]
            found = translate_parts(self, parts, "input", first, **search)
            for (line, start), nbest in zip(chunk, chain.from_iterable(each for _, each in found)):
                yield nbest if start else capitals_of(line, nbest, self)
            first += len(chunk)

    def translations(
        self, sources: Sequence[Pieces], prefixes: Sequence[Pieces] | None = None, **search
    ) -> Iterator[dict[int, list[Hypothesis]]]:
        """Yield, batch by batch, the translations of the sources by index, the best first; an empty
        list where the scores are not finite. Raises a UserError for a bad option and for a source
        or prefix that is too long.

        Args:
            sources: the pieces of each sentence, at most *limit*; empty ones are skipped.
            prefixes: the pieces with which each translation begins.
            search: beam, lenpen, nbest, max_len_a, max_len_b, no_repeat_ngram_size as of
                fairseq-generate, but max_len_a multiplies the length of each line; max_tokens:
                source tokens per batch, padding included.
        """
        options = self._checked(search)
        a, b, beam = (options[name] for name in ("max_len_a", "max_len_b", "beam"))
        prefixes = prefixes or [[]] * len(sources)
        if len(prefixes) != len(sources):
            raise UserError(f"{len(prefixes)} prefixes: give {len(sources)}, one for each source")
        given, starts = self._indices(0, sources, EOS), self._indices(1, prefixes)
        if any(token in (PAD, EOS) for start in starts for token in start):
            raise UserError("a prefix has <pad> or </s>: leave it out")
        if (longest := max(map(len, given), default=0)) > self.limit + 1:
            raise UserError(f"a source has {longest - 1} tokens: shorten it to {self.limit}")
        for batch in by_length(list(map(len, given)), options["max_tokens"], a != 0):
            limit = min(int(a * len(given[batch[0]]) + b), self.config["positions"][1] - 1)
            begin = [starts[i] for i in batch]
            if (longest := max(map(len, begin))) > limit:
                raise UserError(f"a prefix has {longest} tokens: shorten it to {limit}")
            how = beam, options["lenpen"], limit, begin, options["no_repeat_ngram_size"]
            found = self._run(self._engine.search, [given[i] for i in batch], *how)
            yield {
                i: [self._hypothesis(one, limit, prefixes[i]) for one in best[: options["nbest"]]]
                for i, best in zip(batch, found)
            }

    def score(self, sources: Iterable[str], targets: Iterable[str], **search) -> list[Score]:
        """The scores of given translations, line by line; of the options of :meth:`translations`,
        only lenpen and max_tokens matter. Raises a UserError for a blank source and for a line that
        is too long."""
        lines = (list(map(self.pieces, strings(side))) for side in (sources, targets))
        return self.score_pieces(*lines, **search)

    def score_pieces(
        self, sources: Sequence[Pieces], targets: Sequence[Pieces], **search
    ) -> list[Score]:
        """Like :meth:`score`, for lines in pieces."""
        if len(sources) != len(targets):
            raise UserError(f"{len(sources)} sources, but {len(targets)} translations")
        options = self._checked(search)
        given, wanted = self._indices(0, sources, EOS), self._indices(1, targets)
        limits = self.limit, self.config["positions"][1] - 1
        for number, pair in enumerate(zip(sources, targets), 1):
            for name, row, most in zip(("source", "translation"), pair, limits):
                if len(row) > most:
                    wrong = f"the {name} has more than {most} tokens: shorten it"
                    raise UserError(f"line {number}: {wrong}")
            if not pair[0]:
                raise UserError(f"line {number}: the source is blank: leave it out")
        found: dict[int, list[float]] = {}
        for batch in by_length(list(map(len, given)), options["max_tokens"]):
            pair = ([side[i] for i in batch] for side in (given, wanted))
            found.update(zip(batch, self._run(self._engine.score, *pair)))
        return [
            Score(sum(found[i]) / len(found[i]) ** options["lenpen"], list(target), found[i])
            for i, target in enumerate(targets)
        ]

    def _run(self, function: Callable, *args):
        try:
            return function(*args)
        except MemoryError:
            raise UserError("out of memory or of threads: lower max_tokens or threads") from None

    def _indices(self, side: int, rows: Sequence[Pieces], *end: int) -> list[list[int]]:
        if isinstance(rows, str) or any(isinstance(row, str) for row in rows):
            raise UserError("give the pieces of each line, as Model.pieces returns them, not text")
        index = self._index[side]
        return [[*(index.get(piece, UNKNOWN) for piece in row), *end] for row in rows]

    def _hypothesis(self, found: tuple, limit: int, start: Pieces) -> Hypothesis:
        score, tokens = found
        # a prefix keeps its pieces, also those that the dictionary lacks
        pieces = [*start, *(self._target[token] for token in tokens[len(start) :])]
        # fairseq prints no <s>
        shown = " ".join(piece for piece, token in zip(pieces, tokens) if token != BOS)
        text = one_line(without_bytes(shown).replace(" ", "").replace(SPACE, " "))
        return Hypothesis(text, score, len(tokens) == limit, pieces)

    def _checked(self, search: dict[str, Any]) -> dict[str, Any]:
        """All options, *search* before the model's, as Python's numbers: in NumPy's 5 ** -1 is an
        error, 100 ** 10 negative. Refuses values out of range, and names that nothing has."""
        if unknown := search.keys() - RANGES.keys():
            raise UserError(f"{min(unknown)} is not an option: give {', '.join(RANGES)}")
        options = {**self._options, **search}
        most = {"beam": min(1000, (len(self._target) - 1) // 2), "nbest": options["beam"]}
        for name, allowed in RANGES.items():
            allowed = Range(allowed.least, most.get(name, allowed.most))
            if not allowed.has(options[name]):
                beam = ", the beam" if name == "nbest" else ""
                raise UserError(f"{name} {options[name]!r:.40}: give {allowed}{beam}")
        return {name: type(RANGES[name].least)(options[name]) for name in RANGES}


def count_cpus() -> int:
    """As many as this process may use; in a container, its quota of CPU time counts too."""
    has_mask = hasattr(os, "sched_getaffinity")
    cpus = len(os.sched_getaffinity(0)) if has_mask else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no such file, or "max"
        quota, period = map(int, QUOTA.read_text().split())
        cpus = min(cpus, -(-quota // period))
    return max(1, cpus)
