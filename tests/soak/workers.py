#!/usr/bin/env python3
"""Two processes of fairseq's own distributed training (gloo) train to the losses of one with twice
the --update-freq, and of fairseq-generate translate the same; one that is killed ends the run.

    python tests/soak/workers.py

Dropout is 0: processes that train together draw the same random numbers for other sentences. An
epoch has an odd number of batches, so that its last update has one for the first process only.
"""

import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Sequence

import psutil
import soaking
from cli import hypotheses, training, values
from interrupting import LAST, kill_late, unlike
from processes import LONG, all_well, installed, together
from small_world import binary_data

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.modules.mixing_kinds import TOKEN_MIXING

MEASURED = Path(__file__).with_name("measured")  # a --user-dir
TOLERANCE = 1e-4  # of a loss, in bits
UPDATES, SENTENCES = 100, 400
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


def shared_out(whole: str, parts: Sequence[str]) -> List[str]:
    """What is wrong with translations that several processes shared out.

    Args:
        whole: what ``fairseq-generate`` prints when one process translates all.
        parts: what each of several prints.
    """
    expected, found = hypotheses(whole), [hypotheses(part) for part in parts]
    lost = [f"process {n} translated nothing" for n, part in enumerate(found) if not part]
    for number, translations in expected.items():
        made = [part[number] for part in found if number in part]
        if len(made) != 1:
            lost.append(f"sentence {number} was translated {len(made)} times")
        elif [words for _, words in made[0]] != [words for _, words in translations]:
            lost.append(f"sentence {number} was translated otherwise")
        elif max(abs(a - b) for (a, _), (b, _) in zip(made[0], translations)) > 1e-3:
            lost.append(f"sentence {number} has another score")
    return lost


class Soak:
    """
    Args:
        folder: for everything that is made.

    Attributes:
        details: numbers found, by what was tried.
        lost: a line for each failure.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        sizes = {"train": 400, "valid": 40, "test": SENTENCES}
        self.data = binary_data(folder / "data", sizes)
        self.details, self.lost = {"losses apart": {}, "killed": {}}, []

    def words(self, model: tuple, folder: Path, *more) -> tuple:
        """The command line of a training by Adagrad that comes to the paper's rate at its end."""
        options = ("--user-dir", MEASURED, *model, "--lr", 0.2, "--warmup-updates", 100)
        options += ("--batch-size", 16, "--max-update", UPDATES, "--save-interval-updates", 10)
        options += ("--keep-interval-updates", 2, "--update-epoch-batch-itr", "True")
        options += ("--load-checkpoint-on-all-dp-ranks", "--num-workers", 1)
        return training(self.data, folder, *options, *more)

    def one(self, model: tuple, folder: Path, *more) -> Path:
        """Train in one process, two batches an update. Gives its log."""
        folder.mkdir()
        log = folder / "0.log"
        words = self.words(model, folder, "--update-freq", 2, *more)
        status = installed("fairseq-train", words, log).wait(timeout=LONG)
        if status:
            self.lost.append(f"{folder.name} ended with status {status}")
        return log

    def two(self, words: Sequence, folder: Path) -> Path:
        """Two processes. Gives the log of the first."""
        program = "fairseq-train" if "--save-dir" in words else "fairseq-generate"
        with together(installed, program, words, folder) as processes:
            self.lost += [f"{folder.name}: {line}" for line in all_well(processes)]
        return folder / "0.log"

    def train(self) -> None:
        """Each model by one process and by two."""
        for number, model in enumerate(MODELS):
            name = model[-1]
            single, double = self.folder / f"one {number}", self.folder / f"two {number}"
            log = self.one(model, single)
            difference = apart(log, self.two(self.words(model, double), double / "logs"))
            counts = {what: len(some) for what, some in losses(log).items()}
            if counts["loss"] != UPDATES or not difference < TOLERANCE:
                self.lost.append(f"{name}: {counts['loss']} losses, {difference:.2g} apart")
            self.details["losses apart"][name] = {"most": difference, **counts}
            print(f"{name}: losses at most {difference:.1e} apart", flush=True)

    def translate(self) -> None:
        """The test set by one process and by two, and what they share out between them."""
        words = [self.data, "--user-dir", MEASURED, "--path", self.folder / "one 0" / LAST]
        words += ["--cpu", "--beam", 4, "--batch-size", 8]
        whole = self.folder / "whole.log"
        if installed("fairseq-generate", words, whole).wait(timeout=LONG):
            self.lost.append("fairseq-generate by one process failed")
        logs = self.two(words, self.folder / "translate").parent
        parts = [(logs / f"{rank}.log").read_text(encoding="utf-8") for rank in range(2)]
        self.lost += shared_out(whole.read_text(encoding="utf-8"), parts)

    def kill(self) -> None:
        """Either process is killed; then both are started again."""
        for victim in range(2):
            folder = self.folder / f"killed {victim}"
            words, logs = self.words(RESMLP, folder), folder / "logs"
            with together(installed, "fairseq-train", words, logs) as processes:
                kill, survivor = processes[victim].kill, processes[1 - victim]
                end = kill_late(kill, survivor, logs / "0.log", KILLED_AFTER)
            said = (logs / f"{1 - victim}.log").read_text(encoding="utf-8").rstrip()
            last = said.rpartition("\n")[2]
            self._ended(f"process {victim} by hand", end)
            if "error: another process of this run has ended" not in last:
                self.lost.append(f"process {victim} killed, and the other said {last!r}")
            self.two(words, folder / "again")
            both = self.folder / "two 0" / LAST, folder / LAST
            self.lost += [f"after the death of {victim}, the run {line}" for line in unlike(*both)]

    def kill_below_torchrun(self) -> None:
        """The same where torchrun has started the processes, as resmlp-mt train does."""
        folder = self.folder / "torchrun"
        folder.mkdir()
        log = folder / "log"
        words = ["--standalone", "--nproc_per_node", 2, "-m", "fairseq_cli.train"]
        words += self.words(RESMLP, folder, "--distributed-world-size", 2)
        words += ["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
        agent = installed("torchrun", words, log)

        def kill() -> None:
            workers = psutil.Process(agent.pid).children()
            (second,) = (worker for worker in workers if worker.environ().get("RANK") == "1")
            second.kill()

        try:
            end = kill_late(kill, agent, log, KILLED_AFTER)
        finally:
            agent.terminate()  # which ends the processes below it
        self._ended("process 1 of torchrun", end)
        if "failed (exitcode: -9)" not in log.read_text(encoding="utf-8"):
            self.lost.append("torchrun does not say which process was killed")

    def _ended(self, name: str, end: dict) -> None:
        self.details["killed"][name] = end
        if end["status"] is None or end["status"] <= 0:
            self.lost.append(f"{name} killed, and the run ended with {end['status']}")
        print(f"{name} killed: {end}", flush=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder))
        soak.train()
        soak.translate()
        soak.kill()
        soak.kill_below_torchrun()
    soaking.record(
        "workers",
        f"two processes train to the losses of one with twice the `--update-freq`, to {TOLERANCE}, "
        "and translate the same; one that is killed ends the run, which then resumes bit for bit",
        f"{len(MODELS)} models over {UPDATES} updates, {SENTENCES} sentences, "
        f"{len(soak.details['killed'])} kills",
        soak.lost,
        {"updates": UPDATES, "sentences": SENTENCES, **soak.details},
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
