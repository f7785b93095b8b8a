#!/usr/bin/env python3
"""Hostile text through every program that reads text: no line is lost, shifted or split, none is
left out uncounted, and what is not UTF-8 is refused with file and line.

    python tests/soak/hostile_text.py [--quick --results DIR]

Hypothesis mixes control characters, line breaks of other kinds, names of special symbols, lines
like those that fairseq prints, scripts from right to left, unassigned characters and more into
lines, first for single functions, then for whole programs. Then come lines of a megabyte, 100,000
empty lines and what is not UTF-8.
"""

import argparse
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Callable, Dict, List

import hostile_lines
import soaking
from hostile_text_programs import Programs
from hostile_text_properties import Properties
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_world import make

from resmlp_mt.cli.terminal import run_main

LONGEST = 30  # pieces that the small model takes
INTERACTIVE = ("fairseq-interactive", "translate")  # they refuse a line that is longer
ATTENTION = "plot attention"


def tell(what: str, run: Callable, lost: List[str]) -> None:
    """Call *run*; what it raises is one more line of *lost*."""
    try:
        run()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        lost.append(f"{what}: {said} ({Path(where.filename).name}:{where.lineno})")


def by_hypothesis(strategy: st.SearchStrategy, examples: int, run: Callable) -> None:
    """Call *run* with as many inputs, always the same ones."""

    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def each(drawn):
        run(*drawn)

    each()


def functions(folder: Path, examples: int, lost: List[str]) -> Dict[str, int]:
    """Properties of single functions; returns the inputs tried."""
    properties = Properties(folder)
    line, text, file = hostile_lines.lines(), hostile_lines.texts(), hostile_lines.files()
    for name, strategy, run in (
        ("reading", st.tuples(file), properties.reading),
        ("subwords", st.tuples(line), properties.to_subwords),
        ("cleaning", st.tuples(line, line), properties.clean),
        ("scoring", st.tuples(text, text), properties.scores),
    ):
        tell(name, lambda s=strategy, r=run: by_hypothesis(s, examples, r), lost)
    return properties.tried


def programs(folder: Path, batches: int, many: int, lost: List[str]) -> Dict[str, int]:
    """Whole programs; returns the lines tried.

    Args:
        batches: of some 130 lines and more, drawn anew each.
        many: empty lines at a time.
    """
    tried = Programs(make(folder / "world"), folder)
    fixed = [line.encode() for line in hostile_lines.FIXED]
    drawn: List[List[bytes]] = []
    lines = st.lists(hostile_lines.lines().map(str.encode), min_size=100, max_size=200)
    by_hypothesis(st.tuples(lines), batches, drawn.append)
    for batch in [fixed, *drawn]:
        batch = [*batch, b"w01 w02"]  # so that no program has nothing at all to do
        short = [x for x in batch if len(tried.encode(x.decode()).split()) <= LONGEST]
        for name in tried.names:
            chosen = short if name in INTERACTIVE else batch
            tell(name, lambda n=name, c=chosen: tried.run(n, c), lost)
        tell("translate", lambda b=batch: tried.translate_truncated(b), lost)
        tell("prepare", lambda b=batch: tried.prepare_held_out(b), lost)
    short = [x for x in fixed if len(tried.encode(x.decode()).split()) <= LONGEST]
    tell(ATTENTION, lambda: tried.run(ATTENTION, short), lost)
    for name in tried.names:
        empty = [b""] * many + [b"w01 w02"]
        tell(f"{name}, {many} empty lines", lambda n=name, e=empty: tried.run(n, e), lost)
    for wrong in hostile_lines.NOT_UTF8:
        tell(f"not UTF-8: {wrong!r}", lambda w=wrong: refused(tried, w), lost)
    for line in hostile_lines.LONG:
        tell("a megabyte in a line", lambda x=line: a_long_line(tried, x), lost)
    return tried.tried


def refused(programs: Programs, wrong: bytes) -> None:
    """What is no UTF-8, through every program."""
    for name in programs.names:
        if name == "prepare":
            programs.prepare_refuses(wrong)
        elif name != "fairseq-preprocess and fairseq-generate":  # its input is made here
            lines = [b"w01", b"\xc2\x85", wrong, b"w02"]
            programs.refuse(name, lines, "line 3: invalid UTF-8")
    programs.refuse(ATTENTION, [wrong], "invalid UTF-8")


def a_long_line(programs: Programs, line: str) -> None:
    """One that may be too long for the model, through every program."""
    lines = [b"w01", line.encode(), b"w02 w03"]
    for name in programs.names:
        if len(programs.encode(line).split()) > LONGEST and name in INTERACTIVE:
            programs.refuse(name, lines, "line 2: .* pieces, but|sentence 1 is longer")
        else:
            programs.run(name, lines)
    programs.translate_truncated(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    soaking.add_options(parser)
    args = soaking.check(parser.parse_args())
    lost: List[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = functions(folder, 200 if args.quick else 5000, lost)
        ran = programs(folder, 1 if args.quick else 20, 1000 if args.quick else 100_000, lost)
    soaking.record(
        "hostile_text",
        "hostile text (control characters, other line breaks, names of special symbols, a megabyte "
        "in one line, 100,000 empty lines, invalid UTF-8) through every program that reads text: "
        "each line comes out again or is counted and named",
        f"{sum(found.values()):,} inputs of single functions, {sum(ran.values()):,} lines through "
        f"{len(ran)} programs",
        lost,
        {"inputs": found, "lines": ran},
        args.results,
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
