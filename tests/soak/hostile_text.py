#!/usr/bin/env python3
"""Hostile text through every program that reads text: no line is lost, shifted or split, none is
left out uncounted, and what is not UTF-8 is refused with file and line.

    python tests/soak/hostile_text.py

Hypothesis mixes control characters, line breaks of other kinds, names of special symbols, lines
like those that fairseq prints, scripts from right to left, unassigned characters and more into
lines, first for single functions, then for whole programs. Then come lines of a megabyte, 100,000
empty lines and what is not UTF-8.
"""

import sys
import tempfile
import traceback
from pathlib import Path
from typing import Callable, Dict, List

import hostile_lines
import soaking
from hostile_functions import Functions
from hostile_programs import INTERACTIVE, Programs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_world import make

from resmlp_mt.cli.terminal import run_main

EXAMPLES = 5000  # of each function
BATCHES = 20  # of some 130 lines and more, drawn anew each
EMPTY_LINES = 100_000


class Soak:
    """
    Attributes:
        lost: a line for each failure.
    """

    def __init__(self):
        self.lost: List[str] = []

    def attempt(self, what: str, run: Callable, *arguments, **more) -> None:
        """Call *run*. What it raises is one more line of :attr:`lost`."""
        try:
            run(*arguments, **more)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            self.lost.append(f"{what}: {said} ({Path(where.filename).name}:{where.lineno})")

    def functions(self, folder: Path) -> Dict[str, int]:
        """Properties of single functions. Returns the inputs tried."""
        functions = Functions(folder)
        line, text, file = hostile_lines.lines(), hostile_lines.texts(), hostile_lines.files()
        for run, *strategies in (
            (functions.reading, file),
            (functions.subwords, line),
            (functions.cleaning, line, line),
            (functions.scoring, text, text),
        ):
            self.attempt(run.__name__, by_hypothesis, EXAMPLES, run, *strategies)
            print(f"{run.__name__}: {functions.tried[run.__name__]:,} inputs", flush=True)
        return functions.tried

    def programs(self, folder: Path) -> Dict[str, int]:
        """Whole programs. Returns the lines tried."""
        programs = Programs(make(folder / "world"), folder)
        drawn: List[List[bytes]] = [[line.encode() for line in hostile_lines.FIXED]]
        lines = st.lists(hostile_lines.lines().map(str.encode), min_size=100, max_size=200)
        by_hypothesis(BATCHES, drawn.append, lines)
        for batch in drawn:
            batch = [*batch, b"w01 w02"]  # so that no program has nothing at all to do
            short = [line for line in batch if not programs.too_long(line)]
            for name in programs.names:
                chosen = short if name in (INTERACTIVE, "translate") else batch
                self.attempt(name, programs.run, name, chosen)
            self.attempt("translate", programs.run, "translate", batch, truncate=True)
            self.attempt("prepare", programs.run, "prepare", batch[:50], held_out=batch)
        for name in programs.names:
            empty = [b""] * EMPTY_LINES + [b"w01 w02"]
            self.attempt(f"{name}, empty lines", programs.run, name, empty)
        for wrong in hostile_lines.NOT_UTF8:
            self.attempt(f"not UTF-8: {wrong!r}", programs.not_utf8, wrong)
        for long in hostile_lines.LONG:
            self.attempt("a megabyte in a line", programs.long_line, long.encode())
        return programs.tried


def by_hypothesis(examples: int, run: Callable, *strategies: st.SearchStrategy) -> None:
    """Call *run* with as many inputs, always the same ones."""

    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.tuples(*strategies))
    def each(drawn):
        run(*drawn)

    each()


def main() -> None:
    soak = Soak()
    with tempfile.TemporaryDirectory() as name:
        found = soak.functions(Path(name))
        ran = soak.programs(Path(name))
    soaking.record(
        "hostile_text",
        "hostile text (control characters, other line breaks, names of special symbols, a megabyte "
        "in one line, 100,000 empty lines, invalid UTF-8) through every program that reads text: "
        "each line comes out again or is counted and named",
        f"{sum(found.values()):,} inputs of single functions, {sum(ran.values()):,} lines through "
        f"{len(ran)} programs",
        soak.lost,
        {"inputs": found, "lines": ran},
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
