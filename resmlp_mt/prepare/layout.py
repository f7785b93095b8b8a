"""A folder of parallel text as ``mtdata get`` leaves it; what is in it, and whether it is sound.

::

    train-parts/NAME.eng  train-parts/NAME.deu     a training corpus; any number of them
    dev.eng  dev.deu                               to validate
    test1.eng  test1.deu                           to test

One sentence a line. The endings are mtdata's names of the languages (``eng``, ``deu``, ``fra``);
each file may be a ``.gz``. What else mtdata leaves there (``tests/``, a merged ``train.eng``) is
not looked at: its ``dev`` and ``test1`` are links into ``tests/``, or several of those in one file.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Tuple

from tqdm import tqdm

from resmlp_mt.errors import UserError
from resmlp_mt.prepare.recipes import Pair
from resmlp_mt.text.lines import open_bytes, reading, sha256_of

BLOCK = 1 << 20  # bytes read at a time


@dataclass(frozen=True)
class Corpus:
    """
    Attributes:
        name: file name without the language.
        source, target: its two files.
    """

    name: str
    source: Path
    target: Path


@dataclass(frozen=True)
class Layout:
    """What :func:`find_text` found."""

    train: List[Corpus]
    valid: Corpus
    test: Corpus


@dataclass(frozen=True)
class Contents:
    """
    Attributes:
        pairs: lines of either side.
        bytes: of both sides, unpacked.
        sha256: of the two files, packed as they are.
    """

    pairs: int
    bytes: int
    sha256: Tuple[str, str]


def find_text(folder: Path, pair: Pair) -> Layout:
    """The files of *pair* in a folder of mtdata's layout.

    Raises:
        UserError: naming what is missing.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder: give one that `mtdata get` has filled")
    source, target = pair.tags
    parts = folder / "train-parts"
    corpora = {side: _by_name(parts, side) for side in pair.tags}
    names = sorted(set(corpora[source]) | set(corpora[target]))
    if not names:
        raise UserError(
            f"{folder}: no training text: put NAME.{source} and NAME.{target} in train-parts/, or "
            "let mtdata do so"
        )
    for name in names:
        for side in pair.tags:
            if name not in corpora[side]:
                raise UserError(f"{parts / name}.{side} is missing: a corpus needs both sides")
    return Layout(
        [Corpus(name, corpora[source][name], corpora[target][name]) for name in names],
        _one_set(folder, "dev", pair),
        _one_set(folder, "test1", pair),
    )


def _by_name(parts: Path, side: str) -> Dict[str, Path]:
    """Files of one language by the name of their corpus."""
    found = {}
    for ending in (f".{side}", f".{side}.gz"):
        for path in parts.glob(f"*{ending}"):
            name = path.name[: -len(ending)]
            if name in found:
                raise UserError(f"{path} and {found[name]}: two files of one corpus: remove one")
            found[name] = path
    return found


def _one_set(folder: Path, name: str, pair: Pair) -> Corpus:
    sides = []
    for side in pair.tags:
        plain, packed = folder / f"{name}.{side}", folder / f"{name}.{side}.gz"
        sides.append(packed if packed.is_file() and not plain.is_file() else plain)
        if not sides[-1].is_file():
            raise UserError(f"{plain} is missing: {folder} needs dev and test1 beside train-parts")
    return Corpus(name, *sides)


def inspect(corpora: List[Corpus], threads: int) -> List[Contents]:
    """Read every file once: its lines are counted, its checksum taken.

    Args:
        corpora: of any split.
        threads: files read at the same time.

    Raises:
        UserError: missing, unreadable or empty files, a damaged gzip, sides of different lengths.
    """
    found = []
    title = "checking lines and checksums"
    files = [path for corpus in corpora for path in (corpus.source, corpus.target)]
    with (
        tqdm(desc=title, unit="B", unit_scale=True, mininterval=1) as bar,
        ThreadPoolExecutor(threads) as pool,
    ):
        sides = list(pool.map(lambda path: _read_through(path, bar.update), files))
    for corpus, source, target in zip(corpora, sides[::2], sides[1::2]):
        if source.lines != target.lines:
            raise UserError(
                f"{corpus.source} has {source.lines} lines but {corpus.target} has "
                f"{target.lines}: both sides of a corpus need the same number"
            )
        if not source.lines:
            raise UserError(f"{corpus.source}: empty file: a corpus needs one sentence a line")
        digests = (source.sha256, target.sha256)
        found.append(Contents(source.lines, source.bytes + target.bytes, digests))
    return found


class _Side(NamedTuple):
    lines: int
    bytes: int  # unpacked
    sha256: str  # packed


def _read_through(path: Path, progress: Callable[[int], None]) -> _Side:
    lines = size = 0
    last = b"\n"
    with reading(path), open_bytes(path) as file:
        while block := file.read(BLOCK):
            lines += block.count(b"\n")
            size += len(block)
            last = block
            progress(len(block))
    return _Side(lines + (not last.endswith(b"\n")), size, sha256_of(path))
