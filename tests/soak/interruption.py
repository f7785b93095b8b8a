#!/usr/bin/env python3
"""fairseq-train killed ten times (SIGKILL) in steps, validations and saves, and its disk full in
saves: every checkpoint stays loadable, and the run ends like one that was left alone, bit for bit.

    python tests/soak/interruption.py [--quick --results DIR]

The moments are random, with a seed: a phase and a time within it, counted from the phase's first
line in the log; the result file says where each kill fell by the log's last line. It needs to mount
a small file system (root, or ``unshare --map-root-user --mount``).
"""

import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import List, NamedTuple

import soaking
from cli import CRITERION, PACKAGE
from full_disk import SmallDisk, one_line
from interrupting import (
    LAST,
    PHASES,
    Start,
    killed_run,
    train_through,
    unlike,
    whole_checkpoints,
)
from made_up import binary_data
from processes import installed

from resmlp_mt.cli.terminal import run_main

# the saves in the middle of which a disk is full: while a checkpoint is copied for the first time,
# while one is written, and while one is copied over the last good one
ROOMS = (2.5, 3.5, 4.5)  # checkpoints
ARCHITECTURES = ("resmlp_mt_tiny", "transformer")


class Size(NamedTuple):
    """How much to try."""

    pairs: int
    updates: int
    kills: int
    rooms: tuple
    architectures: tuple


# no multiple of five updates an epoch: most saves are within one, and its place is to be kept
FULL = Size(200, 66, 10, ROOMS, ARCHITECTURES)
QUICK = Size(100, 24, 3, ROOMS[-1:], ARCHITECTURES[:1])


def training(data: Path, architecture: str, updates: int, folder: Path) -> Start:
    """Starts a training whose checkpoints are of some 5 MB, with dropout, a save in 5 updates.

    Of those two are kept: the older are deleted at the end of a save, which a kill may interrupt.
    """
    words = [data, "--user-dir", PACKAGE, "--save-dir", folder, "--arch", architecture, *CRITERION]
    for side in ("encoder", "decoder"):
        words += [f"--{side}-layers", 2, f"--{side}-embed-dim", 64, f"--{side}-attention-heads", 4]
        words += [f"--{side}-ffn-embed-dim", 1024]
    words += ["--max-source-positions", 32, "--max-target-positions", 32, "--dropout", 0.1]
    words += ["--optimizer", "adagrad", "--lr", 0.05, "--lr-scheduler", "fixed"]
    words += ["--warmup-updates", 20, "--batch-size", 16, "--max-update", updates, "--cpu"]
    words += ["--save-interval-updates", 5, "--keep-interval-updates", 2]
    words += ["--update-epoch-batch-itr", "True", "--no-epoch-checkpoints"]
    words += ["--log-format", "json", "--log-interval", 1]
    return partial(installed, "fairseq-train", words)


def kill(size: Size, data: Path, folder: Path) -> dict:
    """The run that is killed, beside one that is not: see :func:`interrupting.killed_run`."""
    architecture = size.architectures[0]
    alone, killed, logs = folder / "alone", folder / "killed", folder / "logs"
    logs.mkdir()
    seconds = train_through(training(data, architecture, size.updates, alone), folder / "alone.log")
    aims = [PHASES[-1 - number % len(PHASES)] for number in range(size.kills)]
    start = training(data, architecture, size.updates, killed)
    found = killed_run(start, killed, logs, aims, size.updates, seconds, seed=1)
    found["seconds"] = seconds
    found["lost"] += [f"the killed run {line}" for line in unlike(alone / LAST, killed / LAST)]
    return found


def fill(size: Size, architecture: str, data: Path, folder: Path) -> List[str]:
    """The run whose disk is full, once for each room; a line for each thing that was wrong."""
    alone, lost = folder / "alone" / LAST, []
    if not alone.exists():
        start = training(data, architecture, size.updates, alone.parent)
        train_through(start, folder / "alone.log")
    for room in size.rooms:
        place = f"{architecture} with room for {room} checkpoints"
        with SmallDisk(folder / f"room {room}", int(room * alone.stat().st_size)) as disk:
            start = training(data, architecture, size.updates, disk.folder)
            log = folder / f"room {room}.log"
            status = start(log).wait(timeout=600)
            said = log.read_text(encoding="utf-8")
            found = one_line(status, said, disk.folder, "No space left on device")
            found += whole_checkpoints(disk.folder)
            disk.make_room(100 * alone.stat().st_size)
            train_through(start, folder / f"room {room} again.log")
            found += unlike(alone, disk.folder / LAST)
        print(f"{place}: {said.splitlines()[-1]}", flush=True)
        lost += [f"{place}: {line}" for line in found]
    return lost


def main() -> None:
    args = soaking.parse(__doc__)
    size = QUICK if args.quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        data = binary_data(folder / "data", {"train": size.pairs, "valid": 48})
        folders = [folder / architecture for architecture in size.architectures]
        for each in folders:
            each.mkdir()
        killed = kill(size, data, folders[0])
        for number, each in enumerate(killed["kills"]):
            print(f"kill {number}: {each}", flush=True)
        fell = Counter(each["fell into"] for each in killed["kills"])
        lost = killed["lost"]
        if not args.quick:
            lost += [f"no kill fell into a {phase}" for phase in PHASES if not fell[phase]]
        for architecture, each in zip(size.architectures, folders):
            lost += fill(size, architecture, data, each)
    disks = len(size.rooms) * len(size.architectures)
    soaking.record(
        "interruption",
        "a training that is killed, or whose disk is full, leaves whole checkpoints and, started "
        "again, ends with the same weights and optimizer state, bit for bit",
        f"{len(killed['kills'])} kills ("
        + ", ".join(f"{count} in a {phase}" for phase, count in sorted(fell.items()))
        + f"), {disks} full disk{'s' * (disks > 1)}",
        lost,
        {"updates": size.updates, "kills": killed["kills"], "seconds": killed["seconds"]}
        | {"rooms": size.rooms, "architectures": size.architectures},
        args.results,
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
