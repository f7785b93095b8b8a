"""A training that is killed at chosen moments, and what is looked at afterwards."""

import random
import re
import statistics
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional

import torch
from processes import LONG, Process

from resmlp_mt.checkpoints import read_checkpoint
from resmlp_mt.errors import UserError

LAST = "checkpoint_last.pt"
PHASES = ("step", "validation", "save")
# what fairseq logs as each of them begins
_BEGINS = (
    ("step", "Start iterating over samples"),
    ("step", '"num_updates"'),
    ("validation", "begin validation on"),
    ("save", "Preparing to save checkpoint"),
    ("step", "Saved checkpoint"),
)
_UPDATE = re.compile(r'"num_updates": "(\d+)"')

Start = Callable[[Path], Process]  # starts the training, with its log in that file


class Follower:
    """Reads a log as it grows.

    Attributes:
        phase: what the run is doing, one of ``PHASES``, or ``"start"``.
        update: the last one that it has logged.
        seconds: what each phase took, each time.
    """

    def __init__(self, log: Path):
        self.log, self.phase, self.update = log, "start", 0
        self.seconds: Dict[str, List[float]] = defaultdict(list)
        self._read, self._since = 0, time.perf_counter()

    def follow(self) -> "Follower":
        """Read what has been logged since the last call."""
        if not self.log.exists():
            return self
        with open(self.log, "rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole + newline)
        for line in whole.decode("utf-8", "replace").splitlines():
            phase = next((phase for phase, words in _BEGINS if words in line), None)
            update = _UPDATE.search(line)
            if update:
                self.update = int(update[1])
            if phase is not None:
                now = time.perf_counter()
                self.seconds[self.phase].append(now - self._since)
                self.phase, self._since = phase, now
        return self


def train_through(start: Start, log: Path) -> Dict[str, float]:
    """Train to the end.

    Returns:
        what a step, a validation and a save take, as medians in seconds.

    Raises:
        UserError: if it fails.
    """
    process, follower = start(log), Follower(log)
    end = time.monotonic() + LONG
    while process.poll() is None and time.monotonic() < end:
        follower.follow()
        time.sleep(0.001)
    follower.follow()
    status = process.poll()
    if status != 0:
        process.kill()
        raise UserError(f"fairseq-train ended with status {status}: see {log}")
    return {phase: statistics.median(follower.seconds[phase]) for phase in PHASES}


def kill_in(start: Start, log: Path, aim: str, update: int, delay: float) -> Optional[str]:
    """Train, and kill the process without warning.

    Args:
        start, log: the training.
        aim: the phase to kill it in.
        update: the one after which to do so.
        delay: seconds from the first sign of the phase in the log.

    Returns:
        the phase that it was in (by its log, once it was dead), or None if it ended before.
    """
    process, follower = start(log), Follower(log)
    while process.poll() is None:
        was = follower.phase, len(follower.seconds[aim])
        follower.follow()
        begun = follower.phase == aim and was != (aim, len(follower.seconds[aim]))
        if begun and follower.update >= update:
            time.sleep(delay)
            break
        time.sleep(0.0005)
    process.kill()
    return follower.follow().phase if process.wait(timeout=60) < 0 else None


def kill_late(kill: Callable[[], None], survivor: Process, log: Path, update: int) -> dict:
    """Kill a process after an update, and wait for another to end by itself.

    Args:
        kill: kills the first.
        survivor: the other.
        log: the one that has the updates in it.
        update: the last one before the kill.

    Returns:
        ``seconds`` from the kill to the end of the survivor, and its ``status``: None if it has
        not ended in 15 minutes.
    """
    follower = Follower(log)
    while follower.follow().update < update and survivor.poll() is None:
        time.sleep(0.001)
    kill()
    killed = time.perf_counter()
    try:
        status = survivor.wait(timeout=LONG)
    except subprocess.TimeoutExpired:
        status = None
    return {"seconds": round(time.perf_counter() - killed, 2), "status": status}


def whole_checkpoints(folder: Path) -> List[str]:
    """Load every checkpoint that has its final name. Gives a line for each that does not load."""
    lost = []
    for path in sorted(folder.glob("checkpoint*.pt")):
        try:
            read_checkpoint(path)
        except UserError as error:
            lost.append(str(error))
    return lost


def differences(one: Path, other: Path) -> List[str]:
    """The values in which two checkpoints differ, bit for bit: weights, optimizer, place in the
    data. What depends on the clock, the name of the folder or the number of starts is left out."""
    some, others = (dict(_values(_kept(read_checkpoint(path)))) for path in (one, other))
    return sorted(
        name
        for name in some.keys() | others.keys()
        if name not in some or name not in others or not _equal(some[name], others[name])
    )


def _kept(state: dict) -> dict:
    extra = {name: state["extra_state"][name] for name in ("train_iterator", "val_loss", "best")}
    # one entry for each start of the run, of which the last is that of the optimizer's state
    return {
        **{name: state[name] for name in ("model", "last_optimizer_state")},
        **{"optimizer_history": state["optimizer_history"][-1], "extra_state": extra},
    }


def _values(thing, name: str = "") -> Iterator[tuple]:
    """All that stands in nested dictionaries and lists, each by its name."""
    if isinstance(thing, dict):
        parts = thing.items()
    elif isinstance(thing, (list, tuple)):
        parts = enumerate(thing)
    else:
        yield name, thing
        return
    for key, part in parts:
        yield from _values(part, f"{name}.{key}")


def _equal(one, other) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and one == other


def unlike(one: Path, other: Path) -> List[str]:
    """No line if two checkpoints are alike (see :func:`differences`), one if they are not."""
    found = differences(one, other)
    return [f"ends with {len(found)} other values: {', '.join(found[:4])} ..."] if found else []


def killed_run(
    start: Start,
    folder: Path,
    logs: Path,
    aims: List[str],
    updates: int,
    seconds: Dict[str, float],
    seed: int,
) -> dict:
    """Train, killed once in each of *aims* at a random moment and started again, to the end.

    Args:
        start: the training.
        folder: of its checkpoints.
        logs: folder for the log of each start.
        aims: phases to kill it in.
        updates: length of the training.
        seconds: how long each phase takes.
        seed: of the moments.

    Returns:
        ``kills``: for each the aim, the phase it fell into, the update before it and how many
        half-written files it left; ``lost``: a line for each thing that was wrong.
    """
    moments, kills, lost = random.Random(seed), [], []
    # the first kill falls into the first span, and so on; updates are left after the last
    span = 0.8 * updates / len(aims)

    def half_written() -> set:
        return {(path.name, path.stat().st_mtime_ns) for path in folder.glob("*.tmp")}

    for number, aim in enumerate(aims):
        log = logs / f"{number}.log"
        had, left = (folder / LAST).exists(), half_written()
        update = int(moments.uniform(number, number + 1) * span)
        # past the median: the end of a save is where its copies are made and old ones are deleted
        delay = moments.uniform(0, 1.1 * seconds[aim])
        phase = kill_in(start, log, aim, update, delay)
        if phase is None:
            lost.append(f"kill {number}: the run ended before it, see {log}")
            continue
        update, half = Follower(log).follow().update, len(half_written() - left)
        kills.append({"aim": aim, "fell into": phase, "update": update, "half": half})
        lost += [f"after kill {number}, {line}" for line in whole_checkpoints(folder)]
        if had and not (folder / LAST).exists():
            lost.append(f"after kill {number} there is no {LAST}")
    train_through(start, logs / "end.log")
    lost += [f"after the end, {line}" for line in whole_checkpoints(folder)]
    return {"kills": kills, "lost": lost}
