"""Parallel text to prepare: where its files are, what is in them, and whether they are sound.

It is named by prefixes, ``PREF.LANG`` or ``PREF.LANG.gz``, or by a recipe. A recipe that is taken
from a folder finds there what ``mtdata get`` leaves::

    train-parts/NAME.eng  train-parts/NAME.deu     a training corpus; any number of them
    dev.eng  dev.deu                               to validate
    test1.eng  test1.deu  test2.eng ...            to test

The endings are the names that mtdata has for the languages. Each file may be a ``.gz``.
"""

import codecs
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from tqdm import tqdm

from resmlp_mt.errors import UserError
from resmlp_mt.prepare.recipes import Recipe, find_recipe
from resmlp_mt.text.lines import (
    check_same_lines,
    open_bytes,
    read_lines,
    read_raw_lines,
    reading,
    sha256_of,
    without_region,
)

BLOCK = 1 << 20  # bytes read at a time
CHUNK_LINES = 8192
CHUNK_BYTES = 4 << 20


@dataclass(frozen=True)
class Corpus:
    """
    Attributes:
        name: for messages and reports.
        source, target: its two files.
    """

    name: str
    source: Path
    target: Path

    def pairs(self) -> Iterator[Tuple[bytes, bytes]]:
        """Lines of both sides, with their line ends."""
        return zip(read_raw_lines(self.source), read_raw_lines(self.target))


@dataclass(frozen=True)
class Corpora:
    """
    Attributes:
        recipe: the languages, and how the text is prepared.
        arguments: words of a command line that name these corpora.
        train: training corpora, one behind the other; none while they are still to be downloaded.
        held_out: ``valid``, then ``test``, ``test1``, ``test2`` ... as fairseq numbers test sets.
    """

    recipe: Recipe
    arguments: List[str]
    train: List[Corpus] = field(default_factory=list)
    held_out: Dict[str, Corpus] = field(default_factory=dict)

    @property
    def languages(self) -> Tuple[str, str]:
        return self.recipe.source_lang, self.recipe.target_lang

    @property
    def tests(self) -> List[str]:
        """The test sets. Before a download it is not known how many there are: ``test``."""
        return [name for name in self.held_out or ["test"] if name != "valid"]

    @classmethod
    def from_prefixes(
        cls,
        source_lang: str,
        target_lang: str,
        trainpref: str,
        validpref: str,
        testpref: Optional[str] = None,
    ) -> "Corpora":
        """
        Args:
            source_lang, target_lang: what the names of the files end in.
            trainpref: one or more prefixes, separated by commas: corpora one behind the other.
            validpref: a prefix.
            testpref: one or more prefixes, separated by commas; None: no test set.

        Raises:
            UserError: naming the file that is missing, or an option.
        """
        languages = (source_lang, target_lang)
        if source_lang == target_lang:
            raise UserError(f"--source-lang and --target-lang are both {source_lang}: give two")
        for language in languages:
            if "." in language:  # names of fairseq's files have one behind it
                raise UserError(f"{language}: the name of a language has no dot: rename its files")
        arguments = ["--source-lang", source_lang, "--target-lang", target_lang]
        arguments += ["--trainpref", str(trainpref), "--validpref", str(validpref)]
        train = [_by_prefix(prefix, languages) for prefix in _listed("trainpref", trainpref)]
        held_out = [_by_prefix(validpref, languages)]
        if testpref is not None:
            arguments += ["--testpref", str(testpref)]
            held_out += [_by_prefix(prefix, languages) for prefix in _listed("testpref", testpref)]
        return cls(Recipe(*languages), arguments, train, _by_split(held_out))

    @classmethod
    def from_recipe(
        cls,
        name: str,
        folder: Optional[Path] = None,
        source_lang: Optional[str] = None,
        target_lang: Optional[str] = None,
    ) -> "Corpora":
        """
        Args:
            name: ``wmt14-en-de``, ``wmt14-en-fr`` or a recipe of mtdata's.
            folder: what ``mtdata get`` has filled; None: the corpora are to be downloaded.
            source_lang, target_lang: the languages of the recipe, in any order.

        Raises:
            UserError: for an unknown recipe, other languages, or naming the file that is missing.
        """
        recipe = find_recipe(name).directed(source_lang, target_lang)
        arguments = ["--recipe", name, "--source-lang", recipe.source_lang]
        arguments += ["--target-lang", recipe.target_lang]
        if folder is None:
            return cls(recipe, arguments)
        return cls(recipe, [*arguments, "--from", str(folder)]).found_in(Path(folder))

    def found_in(self, folder: Path) -> "Corpora":
        """These corpora, whose files are in a folder of the layout of mtdata.

        Raises:
            UserError: naming what is missing.
        """
        if not folder.is_dir():
            raise UserError(f"{folder}: no such folder: give one that `mtdata get` has filled")
        source, target = self.recipe.endings
        parts = folder / "train-parts"
        sources, targets = _by_name(parts, source), _by_name(parts, target)
        if not sources and not targets:
            raise UserError(
                f"{folder}: no training text: put NAME.{source} and NAME.{target} in train-parts/"
            )
        for name in sorted(set(sources) ^ set(targets)):
            lost = target if name in sources else source
            raise UserError(f"{parts / name}.{lost} is missing: a corpus needs both sides")
        train = [Corpus(name, sources[name], targets[name]) for name in sorted(sources)]
        found = [re.match(r"test(\d+)\.", path.name) for path in folder.iterdir()]
        numbers = sorted({int(match[1]) for match in found if match}) or [1]
        names = ["dev", *(f"test{number}" for number in numbers)]
        held_out = [_by_prefix(folder / name, self.recipe.endings) for name in names]
        return Corpora(self.recipe, self.arguments, train, _by_split(held_out))

    def prepared_with(self, **options) -> "Corpora":
        """These corpora with other options of the recipe. None leaves one as it is."""
        given = {name: value for name, value in options.items() if value is not None}
        return replace(self, recipe=replace(self.recipe, **given))

    def all(self) -> Dict[str, Corpus]:
        """Every corpus by its split; training corpora are numbered."""
        train = {f"train{number or ''}": corpus for number, corpus in enumerate(self.train)}
        return {**train, **self.held_out}


def _by_split(held_out: List[Corpus]) -> Dict[str, Corpus]:
    valid, *tests = held_out
    return {"valid": valid, **{f"test{number or ''}": test for number, test in enumerate(tests)}}


def _listed(option: str, value: str) -> List[str]:
    prefixes = str(value).split(",")
    if not all(prefixes):
        raise UserError(
            f"--{option} {value}: give prefixes separated by commas, such as text/train"
        )
    return prefixes


def _by_prefix(prefix: Path, languages: Sequence[str]) -> Corpus:
    sides = []
    for language in languages:
        paths = [Path(f"{prefix}.{language}{packed}") for packed in ("", ".gz")]
        found = [path for path in paths if path.is_file()]
        if not found:
            raise UserError(f"{prefix}.{language} is missing: give both sides, plain or .gz")
        if len(found) == 2:
            raise UserError(f"{found[0]} and {found[1]}: two files of one corpus: remove one")
        sides.append(found[0])
    return Corpus(str(prefix), *sides)


def _by_name(parts: Path, ending: str) -> Dict[str, Path]:
    """Files of one language by the name of their corpus. The ending may have a script or region
    behind it: ``zho_CN``."""
    found: Dict[str, Path] = {}
    for path in sorted(parts.glob("*")):
        name, _, tag = path.name.removesuffix(".gz").rpartition(".")
        if name and without_region(tag) == ending:
            if name in found:
                raise UserError(f"{path} and {found[name]}: two files of one corpus: remove one")
            found[name] = path
    return found


class Contents(NamedTuple):
    """
    Attributes:
        pairs: lines of either side.
        sha256: of the two files, packed as they are.
    """

    pairs: int
    sha256: Tuple[str, str]


def inspect(corpora: Corpora, threads: int) -> Dict[str, Contents]:
    """Count the lines of every file, and take its checksum.

    Args:
        corpora: whose files are there.
        threads: files read at the same time.

    Returns:
        by split, as :meth:`Corpora.all` names them.

    Raises:
        UserError: missing, unreadable or empty files, a damaged gzip, sides of different lengths,
            and what is not UTF-8, unless the recipe leaves it out of the training text.
    """
    skip = corpora.train if corpora.recipe.skip_invalid else []
    bar = tqdm(desc="checking the text", unit="B", unit_scale=True, mininterval=1, disable=None)

    def look(corpus: Corpus) -> Contents:
        paths = (corpus.source, corpus.target)
        lines = [_count_lines(path, corpus not in skip, bar.update) for path in paths]
        for path, count in zip(paths, lines):
            if not count:
                raise UserError(f"{path}: empty file: give one sentence a line")
        check_same_lines(corpus.source, lines[0], corpus.target, lines[1])
        return Contents(lines[0], (sha256_of(corpus.source), sha256_of(corpus.target)))

    with bar, ThreadPoolExecutor(threads) as pool:
        return dict(zip(corpora.all(), pool.map(look, corpora.all().values())))


def _count_lines(path: Path, check_utf8: bool, progress: Callable[[int], None]) -> int:
    lines, last = 0, b"\n"
    decoder = codecs.getincrementaldecoder("utf-8")("strict" if check_utf8 else "ignore")
    with reading(path), open_bytes(path) as file:
        try:
            while block := file.read(BLOCK):
                lines += block.count(b"\n")
                last = block
                progress(len(block))
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            for _ in read_lines(path):  # raises an error that names the line
                pass
    return lines + (not last.endswith(b"\n"))


Chunk = Tuple[List[bytes], List[bytes]]  # lines of both sides


def chunks(pairs: Iterable[Tuple[bytes, bytes]]) -> Iterator[Chunk]:
    """Cut a corpus into lists of lines of both sides, limited in lines and in bytes."""
    sources: List[bytes] = []
    targets: List[bytes] = []
    size = 0
    for source, target in pairs:
        sources.append(source)
        targets.append(target)
        size += len(source) + len(target)
        if len(sources) == CHUNK_LINES or size >= CHUNK_BYTES:
            yield sources, targets
            sources, targets, size = [], [], 0
    if sources:
        yield sources, targets
