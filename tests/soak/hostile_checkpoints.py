#!/usr/bin/env python3
"""Hostile checkpoints through every way in which one is loaded: nothing in them is run, and each is
refused with one line that names it, or loaded exactly.

    python tests/soak/hostile_checkpoints.py

Code in many places and forms, tensors of wrong shapes, weights that are NaN, options of other
versions and types, files cut off at random, with single bits flipped and with 200 bytes changed.
"""

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Dict, List

import hostile_checkpoint_cases as cases
import soaking
from hostile_checkpoint_ways import Ways
from small_world import make

from resmlp_mt.cli.terminal import run_main

SHOWN = 25  # of the lines that were printed, in the result


def template(said: str, folder: Path) -> str:
    """A message without the name of the folder and what it quotes."""
    return re.sub(r"\(.*?\)", "(...)", said.replace(str(folder), ""))[:160]


def main() -> None:
    lost: List[str] = []
    said: Counter = Counter()
    counts: Dict[str, Dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world, marker = make(folder / "world"), folder / "marker"
        ways = Ways(world, folder / "ways")
        groups = cases.groups(world.checkpoint, marker, cases.Damage(50, 200, 30, 20))
        for group, some in groups.items():
            count = counts.setdefault(group, {"files": 0, "refused": 0, "loaded": 0})
            for case in some:
                count["files"] += 1
                for outcome in ways.try_all(case.content, case.expected, case.other):
                    count["loaded" if outcome.said is None else "refused"] += 1
                    said[template(outcome.said or "", folder)] += 1
                    if outcome.problem:
                        lost.append(f"{outcome.way}, {case.name}: {outcome.problem}")
                    if marker.exists():
                        lost.append(f"{outcome.way}, {case.name}: its code was run")
                        marker.unlink()
            print(f"{group}: {count}, {len(lost)} lost so far", flush=True)
    files = sum(count["files"] for count in counts.values())
    loads = sum(count["refused"] + count["loaded"] for count in counts.values())
    del said[""]
    soaking.record(
        "hostile_checkpoints",
        "checkpoints with code in them, of other shapes, types, options and versions, with weights "
        "that are NaN or infinite, cut off and with bits flipped, by each of "
        f"{len(ways.names)} ways of loading: refused in one line or loaded exactly, never run",
        f"{files:,} files, {loads:,} loads",
        lost,
        {"ways": ways.names, "groups": counts, "said": dict(said.most_common(SHOWN))},
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
