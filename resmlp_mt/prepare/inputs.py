"""The text that is to be prepared: found, read through once, and described."""

from pathlib import Path
from typing import Dict, Optional

from resmlp_mt.prepare.layout import find_text, inspect
from resmlp_mt.prepare.recipes import TEST_PAIRS, Pair
from resmlp_mt.prepare.reports import since, spent
from resmlp_mt.prepare.space import bytes_needed, check_space


class Inputs:
    """
    Args:
        folder: text in the layout of :mod:`resmlp_mt.prepare.layout`.
        pair: its languages.
        threads: files read at the same time.

    Attributes:
        train: training corpora.
        contents: what is in each of them, in their order.
        valid, test: held-out corpora.

    Raises:
        UserError: if a file is missing, damaged or empty, or sides differ in length.
    """

    def __init__(self, folder: Path, pair: Pair, threads: int):
        before = spent()
        layout = find_text(folder, pair)
        self.train, self.valid, self.test = layout.train, layout.valid, layout.test
        self._all = [*self.train, self.valid, self.test]
        self._contents = inspect(self._all, threads)
        self.contents = self._contents[: len(self.train)]
        self._cost = since(before)
        test = self._contents[-1].pairs
        if test != TEST_PAIRS:
            print(
                f"note: {self.test.source} has {test} lines, newstest2014 in full has "
                f"{TEST_PAIRS}: scores on it cannot be compared with the paper's"
            )

    def identity(self) -> Dict[str, str]:
        """What tells these files from others, for a results folder that belongs to them."""
        return {
            f"corpus {corpus.name}": " ".join(digest[:16] for digest in found.sha256)
            for corpus, found in zip(self._all, self._contents)
        }

    def report(self) -> dict:
        """Lines, bytes and checksums by corpus, and the cost of finding them."""
        corpora = {
            corpus.name: {
                "pairs": found.pairs,
                "bytes": found.bytes,
                "sha256": dict(zip((corpus.source.name, corpus.target.name), found.sha256)),
            }
            for corpus, found in zip(self._all, self._contents)
        }
        return {"corpora": corpora, "cost": self._cost}

    def check_space(self, out: Path, limit: Optional[int]) -> None:
        """
        Args:
            out: the results folder.
            limit: pairs that are taken of each training corpus.

        Raises:
            UserError: if the disk is too small for what is still to be made there.
        """
        if (out / "data-bin").exists():
            return
        pairs = size = 0
        for found in self.contents:
            taken = min(found.pairs, limit or found.pairs)
            pairs += taken
            size += found.bytes * taken // found.pairs
        needed = bytes_needed(size, pairs, text_done=(out / "text").exists())
        check_space({out: needed}, f"preparing {pairs:,} sentence pairs")
