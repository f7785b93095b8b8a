#!/usr/bin/env python3
"""fairseq-train killed ten times (SIGKILL) in steps, validations and saves, and its disk full in
saves: every checkpoint stays loadable, and the run ends like one that was left alone, bit for bit.

    python tests/soak/interruption.py

The moments are random, with a seed: a phase and a time within it, counted from the first line of
the phase in the log. The result file says where each kill fell by the last line of the log. It
mounts a small file system (root, or ``unshare --map-root-user --mount``).
"""

import subprocess
import sys
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import List

import soaking
from fairseq_programs import PACKAGE, training
from interrupting import (
    LAST,
    PHASES,
    Start,
    killed_run,
    train_through,
    unlike,
    whole_checkpoints,
)
from processes import LONG, installed
from small_world import binary_data

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError

# no multiple of five updates an epoch: most saves are within one, and its place is to be kept
PAIRS, UPDATES, KILLS = 200, 66, 10
# checkpoints that there is room for: the disk is full while a checkpoint is copied for the first
# time, while one is written, and while one is copied over the last good one
ROOMS = (2.5, 3.5, 4.5)
ARCHITECTURES = ("resmlp_mt_tiny", "transformer")


class SmallDisk:
    """A tmpfs of so many bytes at *folder*, which is made; unmounted at the end of a ``with``.

    Raises:
        UserError: if this process may not mount anything.
    """

    def __init__(self, folder: Path, size: int):
        self.folder, self._size = folder, size

    def __enter__(self):
        self.folder.mkdir()
        self._mount(f"size={self._size}", "tmpfs", str(self.folder))
        return self

    def __exit__(self, *error):
        subprocess.run(["umount", str(self.folder)], check=True)

    def make_room(self, size: int) -> None:
        """Let it have so many bytes."""
        self._mount(f"remount,size={size}", str(self.folder))

    def _mount(self, options: str, *rest: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, *rest]
        said = subprocess.run(command, capture_output=True, text=True)
        if said.returncode:
            raise UserError(
                f"no small disk to fill ({said.stderr.strip()}): run this as root, or in "
                "unshare --map-root-user --mount"
            )


def one_line(status: int, output: str, folder: Path, reason: str) -> List[str]:
    """What is wrong with how ``fairseq-train`` ended when a checkpoint could not be written.

    Args:
        status: its exit status.
        output: all that it printed.
        folder: of the checkpoints.
        reason: in the words of the operating system.
    """
    lost = []
    if status <= 0:
        lost.append(f"exit status {status}")
    if "Traceback" in output:
        lost.append("a traceback")
    last = output.rstrip().rpartition("\n")[2]
    if not (last.startswith(f"fairseq-train: error: {folder}") and reason in last):
        lost.append(f"no error in one line but {last!r}")
    if list(folder.glob("*.tmp")):
        lost.append("half a file left behind")
    return lost


def run(data: Path, architecture: str, folder: Path) -> Start:
    """Starts a training whose checkpoints are of some 5 MB, with dropout, a save in 5 updates.

    Of those two are kept: the older are deleted at the end of a save, which a kill may interrupt.
    """
    options = ("--user-dir", PACKAGE, "--arch", architecture, "--encoder-embed-dim", 64)
    options += ("--encoder-ffn-embed-dim", 1024, "--dropout", 0.1, "--batch-size", 16)
    options += ("--max-update", UPDATES, "--save-interval-updates", 5)
    options += ("--keep-interval-updates", 2, "--update-epoch-batch-itr", "True")
    options += ("--num-workers", 1)  # one reads ahead, as by default
    return partial(installed, "fairseq-train", training(data, folder, *options))


def kill(data: Path, folder: Path, seconds: dict) -> dict:
    """The run that is killed, beside one that is not: see :func:`interrupting.killed_run`."""
    killed, logs = folder / "killed", folder / "logs"
    logs.mkdir()
    aims = [PHASES[-1 - number % len(PHASES)] for number in range(KILLS)]
    start = run(data, ARCHITECTURES[0], killed)
    found = killed_run(start, killed, logs, aims, UPDATES, seconds, seed=1)
    for number, each in enumerate(found["kills"]):
        print(f"kill {number}: {each}", flush=True)
    lines = unlike(folder / "alone" / LAST, killed / LAST)
    found["lost"] += [f"the killed run {line}" for line in lines]
    return found


def fill(architecture: str, data: Path, folder: Path) -> List[str]:
    """The run whose disk is full, once for each room. Gives a line for each thing that is wrong."""
    alone, lost = folder / "alone" / LAST, []
    for room in ROOMS:
        place = f"{architecture} with room for {room} checkpoints"
        with SmallDisk(folder / f"room {room}", int(room * alone.stat().st_size)) as disk:
            start = run(data, architecture, disk.folder)
            log = folder / f"room {room}.log"
            status = start(log).wait(timeout=LONG)
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
    with tempfile.TemporaryDirectory() as name:
        data = binary_data(Path(name) / "data", {"train": PAIRS, "valid": 48})
        folders = [Path(name) / architecture for architecture in ARCHITECTURES]
        seconds, lost = [], []
        for architecture, folder in zip(ARCHITECTURES, folders):
            folder.mkdir()
            start = run(data, architecture, folder / "alone")
            seconds.append(train_through(start, folder / "alone.log"))
        killed = kill(data, folders[0], seconds[0])
        fell = Counter(each["fell into"] for each in killed["kills"])
        lost = killed["lost"] + [f"no kill fell into a {p}" for p in PHASES if not fell[p]]
        for architecture, folder in zip(ARCHITECTURES, folders):
            lost += fill(architecture, data, folder)
    soaking.record(
        "interruption",
        "a training that is killed, or whose disk is full, leaves whole checkpoints and, started "
        "again, ends with the same weights and optimizer state, bit for bit",
        f"{len(killed['kills'])} kills ("
        + ", ".join(f"{count} in a {phase}" for phase, count in sorted(fell.items()))
        + f"), {len(ROOMS) * len(ARCHITECTURES)} full disks",
        lost,
        {"updates": UPDATES, "kills": killed["kills"], "seconds": seconds[0]}
        | {"rooms": ROOMS, "architectures": ARCHITECTURES},
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
