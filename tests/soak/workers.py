#!/usr/bin/env python3
"""Two processes of fairseq's own distributed training (gloo) train to the losses of one with twice
the --update-freq; one that is killed ends the run.

    python tests/soak/workers.py

Dropout is 0: processes that train together draw the same random numbers for other sentences. An
epoch has an odd number of batches, so that its last update has one for the first process only.
"""

import sys
import tempfile
from pathlib import Path
from typing import Dict, List

import soaking
from fairseq_programs import training, values
from interrupting import LAST, kill_late, unlike
from processes import LONG, all_well, installed, together
from small_world import binary_data

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.model.mixing_kinds import TOKEN_MIXING

MEASURED = Path(__file__).with_name("measured")  # a --user-dir
TOLERANCE = 1e-4  # of a loss, in bits
UPDATES = 100
KILLED_AFTER = 60  # updates
RESMLP, BASELINE = ("--arch", "resmlp_mt_tiny"), ("--arch", "transformer")
MODELS = (*((*RESMLP, "--token-mixing", kind) for kind in TOKEN_MIXING), BASELINE)


def losses(log: Path) -> Dict[str, List[float]]:
    """The losses of every update and of every validation."""
    text = log.read_text(encoding="utf-8")
    return {name: values(text, name) for name in ("loss", "valid_loss")}


def apart(one: Path, other: Path) -> float:
    """The largest difference between the losses of two logs; infinite if one has more of them."""
    pairs = []
    for name, some in losses(one).items():
        others = losses(other)[name]
        if len(some) != len(others) or not some:
            return float("inf")
        pairs += zip(some, others)
    return max(abs(a - b) for a, b in pairs)


def words(data: Path, model: tuple, folder: Path, *more) -> tuple:
    """The command line of a training by Adagrad that comes to the paper's rate at its end."""
    options = ("--user-dir", MEASURED, *model, "--lr", 0.2, "--warmup-updates", 100)
    options += ("--batch-size", 16, "--max-update", UPDATES, "--save-interval-updates", 10)
    options += ("--keep-interval-updates", 2, "--update-epoch-batch-itr", "True")
    options += ("--load-checkpoint-on-all-dp-ranks", "--num-workers", 1)
    return training(data, folder, *options, *more)


def train_in_two(command: tuple, logs: Path) -> List[str]:
    """Train in two processes. Gives a line for each that fails."""
    with together(installed, "fairseq-train", command, logs) as processes:
        return all_well(processes)


def compare(data: Path, model: tuple, folder: Path) -> dict:
    """Train a model in one process, two batches an update, and in two.

    Returns:
        how far apart the losses are at most, how many of each kind there are, and a line for each
        thing that is ``lost``.
    """
    name, log, logs = model[-1], folder / "one.log", folder / "logs"
    folder.mkdir()
    command = words(data, model, folder / "one", "--update-freq", 2)
    lost = train_in_two(words(data, model, folder / "two"), logs)
    status = installed("fairseq-train", command, log).wait(timeout=LONG)
    if status:
        lost.append(f"one process ended with status {status}")
    most = apart(log, logs / "0.log")
    counts = {what: len(some) for what, some in losses(log).items()}
    if counts["loss"] != UPDATES or not most < TOLERANCE:
        lost.append(f"{counts['loss']} losses, {most:.2g} apart")
    print(f"{name}: losses at most {most:.1e} apart", flush=True)
    return {"most": most, **counts, "lost": [f"{name}: {line}" for line in lost]}


def kill(data: Path, victim: int, expected: Path, folder: Path) -> dict:
    """Kill one of two processes, then start both again.

    Args:
        victim: the rank of the one to kill.
        expected: the last checkpoint of the same run, left alone.

    Returns:
        what :func:`interrupting.kill_late` does, and a line for each thing that is ``lost``.
    """
    command, logs, lost = words(data, RESMLP, folder), folder / "logs", []
    with together(installed, "fairseq-train", command, logs) as processes:
        survivor = processes[1 - victim]
        end = kill_late(processes[victim].kill, survivor, logs / "0.log", KILLED_AFTER)
    if end["status"] is None or end["status"] <= 0:
        lost.append(f"the run ended with {end['status']}")
    last = (logs / f"{1 - victim}.log").read_text(encoding="utf-8").rstrip().rpartition("\n")[2]
    if "error: another process of this run has ended" not in last:
        lost.append(f"the other said {last!r}")
    lost += train_in_two(command, folder / "again") + unlike(expected, folder / LAST)
    print(f"process {victim} killed: {end}", flush=True)
    return {**end, "lost": [f"process {victim} killed: {line}" for line in lost]}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = binary_data(folder / "data", {"train": 400, "valid": 40})
        found = {m[-1]: compare(data, m, folder / m[-1]) for m in MODELS}
        expected = folder / TOKEN_MIXING[0] / "two" / LAST
        killed = [kill(data, n, expected, folder / f"killed {n}") for n in range(2)]
    soaking.record(
        "workers",
        f"two processes train to the losses of one with twice the `--update-freq`, to {TOLERANCE}. "
        "One that is killed ends the run, which then resumes bit for bit",
        f"{len(MODELS)} models over {UPDATES} updates, {len(killed)} kills",
        [line for each in [*found.values(), *killed] for line in each.pop("lost")],
        {"updates": UPDATES, "losses apart": found, "killed": killed},
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
