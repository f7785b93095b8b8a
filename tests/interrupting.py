"""A training that is killed at chosen moments, and what is left of it."""

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
BEGINS = (
    ("step", "Start iterating over samples"),
    ("step", '"num_updates"'),
    ("validation", "begin validation on"),
    ("save", "Preparing to save checkpoint"),
    ("step", "Saved checkpoint"),
)

Start = Callable[[Path], Process]  # starts the training, with its log in that file


class Follower:
    """Reads a log as it grows: the ``phase`` that the run is in, its last ``update``, and the
    ``seconds`` that each phase took, each time."""

    def __init__(self, log: Path):
        self.log, self.phase, self.update = log, "start", 0
        self.seconds: Dict[str, List[float]] = defaultdict(list)
        self._read, self._since = 0, time.perf_counter()

    def follow(self) -> "Follower":
        if not self.log.exists():
            return self
        with open(self.log, "rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole + newline)
        for line in whole.decode("utf-8", "replace").splitlines():
            if update := re.search(r'"num_updates": "(\d+)"', line):
                self.update = int(update[1])
            phase = next((phase for phase, words in BEGINS if words in line), None)
            if phase is not None:
                now = time.perf_counter()
                self.seconds[self.phase].append(now - self._since)
                self.phase, self._since = phase, now
        return self


def train_through(start: Start, log: Path) -> Dict[str, float]:
    """Train to the end. Gives the median seconds of a step, a validation and a save."""
    process, follower = start(log), Follower(log)
    end = time.monotonic() + LONG
    while process.poll() is None and time.monotonic() < end:
        follower.follow()
        time.sleep(0.001)
    follower.follow()
    if process.poll() != 0:
        process.kill()
        raise AssertionError(f"fairseq-train ended with status {process.poll()}: see {log}")
    return {phase: statistics.median(follower.seconds[phase]) for phase in PHASES}


def kill_in(start: Start, log: Path, aim: str, update: int, delay: float) -> Optional[str]:
    """Train, and kill the process *delay* seconds after the first sign in its log of the phase
    *aim* after *update*. Gives the phase that it was in, or None if it ended before."""
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


def kill_late(kill: Callable[[], None], survivor: Process, log: Path, update: int) -> Optional[int]:
    """Kill a process after the *update* of a log, and wait for another to end by itself. Gives the
    status of that one, or None if it goes on for 15 minutes."""
    follower = Follower(log)
    while follower.follow().update < update and survivor.poll() is None:
        time.sleep(0.001)
    kill()
    try:
        return survivor.wait(timeout=LONG)
    except subprocess.TimeoutExpired:
        return None


def unreadable(folder: Path) -> List[str]:
    """A line for each checkpoint with its final name that does not load."""
    lost = []
    for path in sorted(folder.glob("checkpoint*.pt")):
        try:
            read_checkpoint(path)
        except UserError as error:
            lost.append(str(error))
    return lost


def unlike(one: Path, other: Path) -> List[str]:
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


def killed_run(start: Start, folder: Path, aims, updates: int, seconds: dict, seed: int) -> list:
    """Train, killed once in each phase of *aims* at a random moment and started again, to the end.

    Args:
        start: the training, of so many *updates*.
        folder: of its checkpoints, each of which must load after every kill.
        seconds: how long each phase takes.

    Returns:
        for each kill the phase that it fell into and the update before it.
    """
    moments, kills = random.Random(seed), []
    # the first kill falls into the first span, and so on; updates are left after the last
    span = 0.8 * updates / len(aims)
    for number, aim in enumerate(aims):
        log, had = folder.with_name(f"{folder.name}.{number}.log"), (folder / LAST).exists()
        update = int(moments.uniform(number, number + 1) * span)
        # past the median: the end of a save is where its copies are made and old ones are deleted
        phase = kill_in(start, log, aim, update, moments.uniform(0, 1.1 * seconds[aim]))
        assert phase is not None, f"kill {number}: the run ended before it, see {log}"
        kills.append((phase, Follower(log).follow().update))
        assert unreadable(folder) == [] and (folder / LAST).exists() >= had
    train_through(start, folder.with_name(f"{folder.name}.end.log"))
    assert unreadable(folder) == []
    return kills
