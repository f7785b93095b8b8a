#!/usr/bin/env python3
"""Twenty thousand sentences through one process of fairseq-generate and of fairseq-interactive:
memory is flat after the first quarter, and no file stays open.

    python tests/soak/memory.py
"""

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence

import psutil
import soaking
from cli import ROOT, train
from small_world import WORDS, binary_data

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import write_lines

SENTENCES = 20_000
SLACK_MB = 3  # what the allocator may still gain once all sizes of batches have been seen


class Sample(NamedTuple):
    """What a process holds when *done* sentences are translated."""

    done: int
    megabytes: float
    files: int


def watch(command: Sequence, mark: str = "H-", stdin: Optional[Path] = None) -> List[Sample]:
    """Run a program, and look at it for each sentence that it translates.

    Args:
        command: arguments of Python.
        mark: the beginning of each line that stands for a sentence translated.
        stdin: the file that it reads.

    Raises:
        UserError: if it fails.
    """
    samples, line = [], ""
    with open(stdin or os.devnull, "rb") as text:
        process = psutil.Popen(
            [sys.executable, "-u", *map(str, command)],
            **dict(stdin=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT),
            text=True,
        )
    for line in process.stdout:
        if line.startswith(mark):
            try:
                megabytes = process.memory_info().rss / 2**20
                samples.append(Sample(len(samples) + 1, megabytes, process.num_fds()))
            except psutil.Error:  # it has just ended
                break
    process.stdout.read()
    if process.wait():
        raise UserError(f"{' '.join(map(str, command[:2]))} failed: {line.strip()}")
    return samples


def growth(samples: List[Sample], sentences: int) -> Dict[str, dict]:
    """The most that is held in the second quarter and in the last.

    Raises:
        ValueError: if there are no samples of one of them.
    """
    quarters = {
        "second": [s for s in samples if sentences / 4 < s.done <= sentences / 2],
        "last": [s for s in samples if sentences * 3 / 4 < s.done <= sentences],
    }
    return {
        name: {
            "megabytes": round(max(s.megabytes for s in some), 1),
            "files": max(s.files for s in some),
        }
        for name, some in quarters.items()
    }


def grew(found: Dict[str, dict]) -> List[str]:
    """What is larger in the last quarter than in the second."""
    second, last = found["second"], found["last"]
    lines = []
    if last["megabytes"] > second["megabytes"] + SLACK_MB:
        lines.append(f"memory grew from {second['megabytes']} to {last['megabytes']} MB")
    if last["files"] > second["files"]:
        lines.append(f"open files grew from {second['files']} to {last['files']}")
    return lines


def programs(folder: Path) -> Dict[str, List[Sample]]:
    """Train a tiny model and watch each program translate by it."""
    # fairseq-generate goes from short to long, which would look like growth: all have one length
    sizes = {"train": 64, "valid": 8, "test": SENTENCES}
    data = binary_data(folder / "text", sizes, lengths=range(8, 9))
    train(data, folder / "model", "--batch-size", 8, "--max-epoch", 2)
    draw = random.Random(0)
    lines = (draw.choices(WORDS, k=draw.randint(1, 9)) for _ in range(SENTENCES))
    write_lines(folder / "lines.xx", map(" ".join, lines))
    common = [data, "--user-dir", ROOT / "resmlp_mt", "--beam", 4, "--cpu", "--max-len-b", 20]
    common += ["--path", folder / "model" / "checkpoint_last.pt"]
    common += ["--batch-size", 64, "--num-workers", 0]
    by_line = ["-m", "fairseq_cli.interactive", *common, "--buffer-size", 64]
    return {
        "fairseq-generate": watch(["-m", "fairseq_cli.generate", *common]),
        "fairseq-interactive": watch(by_line, stdin=folder / "lines.xx"),
    }


def main() -> None:
    details, lost = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for name, samples in programs(Path(folder)).items():
            details[name] = growth(samples, SENTENCES)
            lost += [f"{name}: {line}" for line in grew(details[name])]
            print(name, details[name], flush=True)
    soaking.record(
        "memory",
        f"memory (to {SLACK_MB} MB) and open files stay flat over {SENTENCES:,} sentences "
        "translated in one process",
        " and ".join(details),
        lost,
        {"sentences": SENTENCES, "slack_megabytes": SLACK_MB, **details},
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
