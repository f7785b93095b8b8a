"""Parallel text to prepare: where its files are, what is in them, and whether they are sound."""

import codecs
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import check_same_lines, open_bytes, read_lines, read_raw_lines, reading

BLOCK = 1 << 20  # bytes read at a time
CHUNK_LINES = 2048


class Corpus(NamedTuple):
    """Two files, and their name in messages."""

    name: str
    source: Path
    target: Path

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Lines of both sides, with their line ends."""
        return zip(read_raw_lines(self.source), read_raw_lines(self.target))


def find_corpora(
    languages: tuple[str, str], trainpref: str, validpref: str, testpref: str | None = None
) -> dict[str, Corpus]:
    """``PREF.LANG`` or ``PREF.LANG.gz`` by split: ``train``, ``train1`` ..., ``valid``, ``test``,
    ``test1`` ... Commas separate the prefixes of a split."""
    if languages[0] == languages[1]:
        raise UserError(f"--source-lang and --target-lang are both {languages[0]}: give two")
    for language in languages:
        if "." in language:  # fairseq puts one behind it
            raise UserError(f"{language}: the name of a language has no dot: rename its files")
    found = {}
    for split, value in (("train", trainpref), ("valid", validpref), ("test", testpref)):
        prefixes = [] if value is None else str(value).split(",")
        if not all(prefixes) or (split == "valid" and len(prefixes) > 1):
            several = "one prefix" if split == "valid" else "prefixes separated by commas"
            raise UserError(f"--{split}pref {value}: give {several}, such as text/{split}")
        for number, prefix in enumerate(prefixes):
            sides = (_find_side(prefix, language) for language in languages)
            found[f"{split}{number or ''}"] = Corpus(prefix, *sides)
    return found


def _find_side(prefix: str, language: str) -> Path:
    paths = [Path(f"{prefix}.{language}{packed}") for packed in ("", ".gz")]
    found = [path for path in paths if path.is_file()]
    if not found:
        raise UserError(f"no {prefix}.{language}[.gz]: give a prefix of both languages")
    if len(found) == 2:
        raise UserError(f"{found[0]} and {found[1]}: two files of one corpus: remove one")
    return found[0]


def inspect(corpus: Corpus, check_utf8: bool) -> tuple[int, str]:
    """The number of pairs and their digest. Refuses what is damaged, empty, uneven or, if asked,
    not UTF-8."""
    digest, lines = sha256(), []
    for path in (corpus.source, corpus.target):
        lines.append(_count_lines(path, check_utf8, digest))
        if not lines[-1]:
            raise UserError(f"{path}: empty file: give one sentence a line")
    check_same_lines(corpus.source, lines[0], corpus.target, lines[1])
    return lines[0], digest.hexdigest()[:16]


def _count_lines(path: Path, check_utf8: bool, digest) -> int:
    lines, last = 0, b"\n"
    decoder = codecs.getincrementaldecoder("utf-8")("strict" if check_utf8 else "ignore")
    with reading(path), open_bytes(path) as file:
        try:
            while block := file.read(BLOCK):
                lines += block.count(b"\n")
                last = block
                digest.update(block)
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            list(read_lines(path))  # raises an error that names the line
    return lines + (not last.endswith(b"\n"))


Chunk = list[tuple[bytes, bytes]]


def chunks(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[Chunk]:
    """What the workers take at a time."""
    pairs = iter(pairs)
    while chunk := list(islice(pairs, CHUNK_LINES)):
        yield chunk
