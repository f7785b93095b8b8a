"""Parallel text to prepare: where its files are, how many lines they have, what is refused."""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from resmlp_mt.errors import UserError
from resmlp_mt_runtime.lines import check_same_lines, existing, read_lines, read_raw_lines

CHUNK_LINES = 2048  # of each side


class Corpus(NamedTuple):
    """The files of both sides, and what messages call them."""

    name: str
    source: Path
    target: Path

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Lines of both sides, with their line ends."""
        sides = [read_raw_lines(path) for path in (self.source, self.target)]
        for source, target in zip_longest(*sides):
            if source is None or target is None:  # they had as many when they were inspected
                shorter = self.source if source is None else self.target
                raise UserError(f"{shorter} was changed while it was read: run it again")
            yield source, target


def find_corpora(
    languages: tuple[str, str], trainpref: str, validpref: str, testpref: str | None = None
) -> dict[str, Corpus]:
    """The corpora by split: ``train``, ``train1`` ..., ``valid``, ``test``, ``test1`` ... Their
    files are ``PREF.LANG`` or, where there is none, ``PREF.LANG.gz``. Commas separate the prefixes
    of a split."""
    if languages[0] == languages[1]:
        raise UserError(f"--source-lang and --target-lang are both {languages[0]}: give two")
    for language in languages:
        if "." in language:  # fairseq's files end in .LANG.bin
            raise UserError(f"{language}: the name of a language has no dot: rename its files")
    corpora = {}
    for split, value in (("train", trainpref), ("valid", validpref), ("test", testpref)):
        prefixes = [] if value is None else str(value).split(",")
        if not all(prefixes) or (split == "valid" and len(prefixes) > 1):
            raise UserError(f"--{split}pref {value}: give a prefix such as text/{split}")
        for number, prefix in enumerate(prefixes):
            sides = (_find_side(prefix, language) for language in languages)
            corpora[f"{split}{number or ''}"] = Corpus(prefix, *sides)
    return corpora


def _find_side(prefix: str, language: str) -> Path:
    path = existing(Path(f"{prefix}.{language}"))
    if not path.is_file():
        raise UserError(
            f"{prefix}.{language} (or .gz) does not exist: give the path without the language"
        )
    return path


def inspect(corpus: Corpus, check_utf8: bool) -> tuple[int, str]:
    """The number of pairs and their digest. Refuses files that are damaged, empty, of different
    lengths or, with *check_utf8*, not UTF-8."""
    digest, lines = sha256(), []
    for path in (corpus.source, corpus.target):
        lines.append(_count_lines(path, check_utf8, digest))
        if not lines[-1]:
            raise UserError(f"{path}: empty file: give one sentence per line")
    check_same_lines(corpus.source, lines[0], corpus.target, lines[1])
    return lines[0], digest.hexdigest()[:16]


def _count_lines(path: Path, check_utf8: bool, digest) -> int:
    lines = 0
    try:
        for line in read_raw_lines(path):
            lines += 1
            digest.update(line)
            if check_utf8:
                line.decode()
    except UnicodeDecodeError:
        list(read_lines(path))  # raises an error that names the line
    return lines


Chunk = list[tuple[bytes, bytes]]


def chunks(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[Chunk]:
    """Lists of pairs, each for one process to work on."""
    pairs = iter(pairs)
    while chunk := list(islice(pairs, CHUNK_LINES)):
        yield chunk
