"""Whole programs on hostile lines, called in this process: each line must come out again, or be
counted and named."""

import re
from pathlib import Path
from typing import Callable, Dict, List, Sequence

from hostile_text_runs import Refused
from hostile_text_scripts import Scripts
from small_world import World


class Programs(Scripts):
    """
    Args:
        world: a small model and its data.
        folder: for files.

    Attributes:
        names: the programs that read files.
        tried: lines so far, by program.
    """

    def __init__(self, world: World, folder: Path):
        super().__init__(world, folder)
        self._programs: Dict[str, Callable[[List[bytes], Path], None]] = {
            "fairseq-preprocess and fairseq-generate": self._preprocess,
            "fairseq-interactive": self._interactive,
            "translate": self._translate,
            "distill": self._distill,
            "score": self._score,
            "prepare": self._prepare,
        }
        self.names = tuple(self._programs)
        self._programs["plot attention"] = self._attention  # a line at a time: slow
        self.tried = dict.fromkeys(self._programs, 0)

    def run(self, name: str, lines: Sequence[bytes]) -> None:
        """Run a program on *lines*, which have no line ends and at least one of which has a word.

        Raises:
            AssertionError: if one is lost, or a program ends with an error.
        """
        self.tried[name] += len(lines)
        self._programs[name](list(lines), self._empty())

    def refuse(self, name: str, lines: Sequence[bytes], said: str) -> None:
        """Run it on *lines*, which it must refuse: in one line that matches *said*, and with
        nothing half-written.

        Raises:
            AssertionError: if it does not.
        """
        self.tried[name] += len(lines)
        folder = self._empty()
        try:
            self._programs[name](list(lines), folder)
        except Refused as refused:
            message = str(refused)
            assert re.search(said, message) and "\n" not in message, message
            left = [path for path in folder.rglob("*") if path.suffix in (".partial", ".tmp")]
            assert not left, f"{name}: half-written: {left}"
        else:
            raise AssertionError(f"{name}: not refused: {said}")

    def translate_truncated(self, lines: List[bytes]) -> None:
        """translate on lines some of which are too long for the model."""
        self.tried["translate"] += len(lines)
        self._translate(lines, self._empty(), truncate=True)

    def prepare_held_out(self, lines: List[bytes]) -> None:
        """prepare with *lines* as its test set, of which none may be left out."""
        self.tried["prepare"] += len(lines)
        self._prepare(lines[:50], self._empty(), held_out=lines)

    def prepare_refuses(self, wrong: bytes) -> None:
        """Of training text, what is no UTF-8 is left out and counted; of the test set it is not."""
        self.tried["prepare"] += 6
        lines = [b"w01", b"\xc2\x85", wrong]
        self._prepare(lines, self._empty())
        try:
            self._prepare([b"w01"], self._empty(), held_out=lines)
        except Refused as refused:
            assert re.search(r"test1\.\w+, line 3: invalid UTF-8", str(refused)), refused
            assert "\n" not in str(refused)
        else:
            raise AssertionError("prepare: a test set that is not UTF-8 is not refused")
