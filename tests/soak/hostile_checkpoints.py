#!/usr/bin/env python3
"""Hostile checkpoints through every way in which one is loaded: nothing in them is run, and each is
refused with one line that names it, or loaded exactly.

    python tests/soak/hostile_checkpoints.py [--quick --results DIR]

Code in many places and forms, tensors of wrong shapes, weights that are no numbers, options of
other versions and types, files cut off at random, with single bits flipped and with 200 bytes
changed.
"""

import argparse
import re
import sys
import tempfile
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

import hostile_checkpoint_states as states
import soaking
from cli import load
from hostile_checkpoint_cases import Case, arrays, code, damaged, evaluated, foreign, same
from hostile_checkpoint_ways import Ways
from small_world import make

from resmlp_mt.cli.terminal import run_main

CUTS, BITS, CHANGES, PICKLES = 50, 200, 30, 20
SHOWN = 25  # of the lines that were said, in the result


def groups(state: dict, content: bytes, marker: Path) -> Iterator[Tuple[str, Iterator[Case]]]:
    """All cases, by what is wrong."""
    yield "same", same(state)
    yield "code", code(state, marker)
    yield "arrays", arrays(state)
    yield "code in options", evaluated(state, marker)
    yield "another file", foreign(state)
    yield "weights", states.weights(state)
    yield "optimizer", states.optimizers(state)
    yield "options", states.options(state)
    yield "around the model", states.frames(state)
    yield "damaged", damaged(content, range(max(CUTS, BITS, CHANGES)), CUTS, BITS, CHANGES)
    yield "pickle changed", states.mutated(state, range(PICKLES))


def template(said: str, folder: Path) -> str:
    """A message without the folder's name and what it quotes."""
    return re.sub(r"\(.*?\)", "(...)", said.replace(str(folder), ""))[:160]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    soaking.add_options(parser)
    args = soaking.check(parser.parse_args())
    lost: List[str] = []
    said: Counter = Counter()
    counts: Dict[str, Dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world, marker = make(folder / "world"), folder / "marker"
        ways = Ways(world, folder / "ways")
        state, content = load(world.checkpoint), world.checkpoint.read_bytes()
        for group, cases in groups(state, content, marker):
            count = counts.setdefault(group, {"files": 0, "refused": 0, "loaded": 0})
            for case in islice(cases, 0, None, 12 if args.quick else 1):
                count["files"] += 1
                for outcome in ways.try_all(case.content, case.expected, case.other):
                    count["loaded" if outcome.said is None else "refused"] += 1
                    said[template(outcome.said or "", folder)] += 1
                    if outcome.problem:
                        lost.append(f"{outcome.way}, {case.name}: {outcome.problem}")
                    if marker.exists():
                        lost.append(f"{outcome.way}, {case.name}: its code was run")
                        marker.unlink()
            print(f"{group}: {count}", flush=True)
    files = sum(count["files"] for count in counts.values())
    loads = sum(count["refused"] + count["loaded"] for count in counts.values())
    del said[""]
    soaking.record(
        "hostile_checkpoints",
        "checkpoints with code in them, of other shapes, types, options and versions, with weights "
        f"that are no numbers, cut off and with bits flipped, by each of {len(ways.names)} ways of "
        "loading: refused in one line or loaded exactly, never run",
        f"{files:,} files, {loads:,} loads",
        lost,
        {"ways": ways.names, "groups": counts, "said": dict(said.most_common(SHOWN))},
        args.results,
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
