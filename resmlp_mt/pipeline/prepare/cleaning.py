"""Joins the training corpora into one clean text, made plain by the rule, normalised if asked.

A pair is left out and counted if a side is not UTF-8 (``invalid-utf8``), is blank (``empty``), has
more characters than its pieces can have (``too-long``), or for a copy of it (``duplicate``).
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

from resmlp_mt.pipeline.prepare.corpora import Chunk, Corpus, chunks
from resmlp_mt.pipeline.prepare.pool import in_processes
from resmlp_mt_runtime.progress import Progress

PIECE = 16  # characters of the longest piece that SentencePiece makes
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # what programs write for bytes that they cannot decode
DIGEST = 8  # bytes: that two of 40 million pairs share one has a probability of 1 in 20,000


class Cleaner:
    """Cleans the pairs of a chunk, in a worker: *plain* has what is done to a line of each side.
    With *skip_invalid*, U+FFFD is invalid UTF-8."""

    def __init__(self, plain: Sequence[Callable[[str], str]], skip_invalid: bool, max_pieces: int):
        self.plain = plain
        self.skip_invalid = skip_invalid
        self.max_characters = PIECE * max_pieces

    def __call__(self, source: bytes, target: bytes) -> str | tuple[bytes, bytes]:
        """Both sides of the clean pair, in UTF-8, or why it is left out."""
        try:
            sides = [source.decode("utf-8").strip(), target.decode("utf-8").strip()]
        except UnicodeDecodeError:
            return "invalid-utf8"
        if self.skip_invalid and any(REPLACEMENT in side for side in sides):
            return "invalid-utf8"
        if not all(sides):
            return "empty"
        if max(map(len, sides)) > self.max_characters:
            return "too-long"
        first, second = (plain(side) for plain, side in zip(self.plain, sides))
        return (first.encode(), second.encode()) if first and second else "empty"

    def chunk(self, chunk: Chunk) -> tuple[list[tuple[bytes, bytes, bytes]], Counter]:
        """The clean pairs, each with its digest, and how many others are left out and why."""
        pairs: list[tuple[bytes, bytes, bytes]] = []
        dropped: Counter[str] = Counter()
        for pair in chunk:
            clean = self(*pair)
            if isinstance(clean, str):
                dropped[clean] += 1
            else:
                digest = hashlib.blake2b(b"\n".join(clean), digest_size=DIGEST).digest()
                pairs.append((*clean, digest))
        return pairs, dropped


def clean(
    corpora: list[Corpus],
    sizes: list[int],
    cleaner: Cleaner,
    drop_duplicates: bool,
    processes: int,
    outputs: Sequence[Path],
) -> dict[str, dict[str, int]]:
    """Write both sides of the first *sizes* pairs of each corpus. Returns, by corpus, how many were
    read, kept and left out."""
    report: dict[str, dict[str, int]] = {}
    seen: set[bytes] = set()
    with (
        Progress("    clean", sum(sizes), "pairs") as progress,
        open(outputs[0], "wb") as source_file,
        open(outputs[1], "wb") as target_file,
    ):
        for corpus, size in zip(corpora, sizes):
            dropped: Counter = Counter()
            kept = 0
            tasks = chunks(islice(corpus.pairs(), size))
            for pairs, reasons in in_processes(processes, cleaner.chunk, tasks):
                dropped += reasons
                for source, target, digest in pairs:
                    if drop_duplicates:
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
