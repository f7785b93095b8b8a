"""Parallel text to prepare: where its files are, how many lines they have, what is refused.

The training corpora become one clean text, normalized by the rule. A pair is left out and counted
if a side is not UTF-8 (``invalid-utf8``), is blank (``empty``) or has more characters than its
pieces can have (``too-long``), or, with --drop-duplicates, if it came before (``duplicate``).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b, sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from resmlp_mt.pipeline.prepare.pool import in_processes
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.lines import check_same_lines, decode_line, decoded, existing, read_raw_lines
from resmlp_mt_runtime.terminal import Progress

CHUNK_LINES = 2048  # of each side


class Corpus(NamedTuple):
    """The files of both sides, and what messages call them."""

    name: str
    source: Path
    target: Path

    def pairs(self) -> Iterator[tuple[bytes, bytes]]:
        """Lines of both sides, with their line ends."""
        return zip(read_raw_lines(self.source), read_raw_lines(self.target))


def find_corpora(
    languages: tuple[str, str], trainpref: str, validpref: str, testpref: str | None = None
) -> dict[str, Corpus]:
    """The corpora by split: ``train``, ``train1`` ..., ``valid``, ``test``, ``test1`` ... A split
    has prefixes, separated by commas, of files ``PREF.LANG`` or else ``PREF.LANG.gz``."""
    if languages[0] == languages[1]:
        wrong = f"--source-lang and --target-lang are both {languages[0]}"
        raise UserError(f"{wrong}: they must differ")
    for language in languages:
        if "." in language:  # fairseq's files end in .LANG.bin
            raise UserError(f"{language}: a language name cannot have a dot: rename its files")
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
        wrong = f"there is no {prefix}.{language} or {prefix}.{language}.gz"
        raise UserError(f"{wrong}: give a prefix of files, without .{language}")
    return path


def inspect(corpus: Corpus, check_utf8: bool) -> tuple[int, str]:
    """The number of pairs and their digest. Refuses files that are damaged, empty, of different
    lengths or, with *check_utf8*, not UTF-8."""
    digest, lines = sha256(), []
    for path in (corpus.source, corpus.target):
        number = 0
        for number, line in enumerate(read_raw_lines(path), 1):
            digest.update(line)
            if check_utf8:
                decode_line(line, path, number)
        if not number:
            raise UserError(f"{path}: empty file: give one sentence per line")
        lines.append(number)
    check_same_lines(corpus.source, lines[0], corpus.target, lines[1])
    return lines[0], digest.hexdigest()[:16]


Chunk = list[tuple[bytes, bytes]]


def chunks(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[Chunk]:
    """Lists of pairs, each for one process to work on."""
    pairs = iter(pairs)
    while chunk := list(islice(pairs, CHUNK_LINES)):
        yield chunk


PIECE = 16  # characters of the longest piece that SentencePiece makes
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # what programs write for bytes that they cannot decode
DIGEST = 8  # bytes: that two of 40 million pairs share one has a probability of 1 in 20,000


class Cleaner(NamedTuple):
    """Cleans the pairs of a chunk, in a worker: *plain* is the rule for a line. With the option
    ``skip_invalid``, U+FFFD is invalid UTF-8."""

    plain: Callable[[str], str]
    options: Any  # PrepareOptions

    def __call__(self, source: bytes, target: bytes) -> str | tuple[bytes, bytes]:
        """Both sides of the clean pair, in UTF-8, or why it is left out."""
        try:
            sides = [decoded(side).strip() for side in (source, target)]
        except UnicodeDecodeError:
            return "invalid-utf8"
        if self.options.skip_invalid and any(REPLACEMENT in side for side in sides):
            return "invalid-utf8"
        if max(map(len, sides)) > PIECE * self.options.max_pieces:
            return "too-long"
        first, second = map(self.plain, sides)
        return (first.encode(), second.encode()) if first and second else "empty"

    def chunk(self, chunk: Chunk) -> tuple[Chunk, Counter]:
        """The clean pairs, and how many others are left out and why."""
        pairs: Chunk = []
        dropped: Counter[str] = Counter()
        for pair in chunk:
            clean = self(*pair)
            if isinstance(clean, str):
                dropped[clean] += 1
            else:
                pairs.append(clean)
        return pairs, dropped


def clean(
    corpora: list[tuple[Corpus, int]], cleaner: Cleaner, processes: int, outputs: Sequence[Path]
) -> dict[str, dict[str, int]]:
    """Write corpora, each given with the number of pairs to read; returns how many were read, kept,
    left out."""
    report: dict[str, dict[str, int]] = {}
    seen: set[bytes] = set()
    with (
        Progress("    clean", sum(size for _, size in corpora), "pairs") as progress,
        open(outputs[0], "wb") as source_file,
        open(outputs[1], "wb") as target_file,
    ):
        for corpus, size in corpora:
            dropped: Counter = Counter()
            kept = 0
            tasks = chunks(islice(corpus.pairs(), size))
            for pairs, reasons in in_processes(processes, cleaner.chunk, tasks):
                dropped += reasons
                for source, target in pairs:
                    if cleaner.options.drop_duplicates:
                        digest = blake2b(source + b"\n" + target, digest_size=DIGEST).digest()
                        if digest in seen:
                            dropped["duplicate"] += 1
                            continue
                        seen.add(digest)
                    kept += 1
                    source_file.write(source + b"\n")
                    target_file.write(target + b"\n")
                progress.update(len(pairs) + reasons.total())
            name = corpus.name
            while name in report:  # a corpus may be given twice
                name += " (again)"
            report[name] = {"read": kept + dropped.total(), **dropped, "kept": kept}
    return report
