#!/usr/bin/env python3
"""Eighty thousand sentences through one process of fairseq-generate and of fairseq-interactive:
memory is flat after the first quarter, and no file stays open.

    python tests/soak/memory.py
"""

import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List, Optional, Sequence

import psutil
import soaking
from fairseq_programs import PACKAGE, ROOT, train
from small_world import WORDS, binary_data

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import write_lines

SENTENCES = 80_000
SLACK_MB = 3  # what the allocator may still gain once all sizes of batches have been seen
SECOND, LAST = 1, 3  # quarters
Held = Dict[str, List[float]]  # the most in each quarter of the sentences


def watch(command: Sequence, stdin: Optional[Path] = None) -> Held:
    """Run a program, and look at what it holds at each sentence that it translates.

    Args:
        command: arguments of Python.
        stdin: the file that it reads.

    Raises:
        UserError: if it fails, or does not translate :data:`SENTENCES` sentences.
    """
    held, done, line = {"megabytes": [0.0] * 4, "files": [0.0] * 4}, 0, ""
    with open(stdin or os.devnull, "rb") as text:
        process = psutil.Popen(
            [sys.executable, "-u", *map(str, command)],
            **dict(stdin=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT),
            text=True,
        )
    for line in process.stdout:
        if line.startswith("H-"):
            quarter, done = min(4 * done // SENTENCES, LAST), done + 1
            try:
                now = {"megabytes": process.memory_info().rss / 2**20, "files": process.num_fds()}
            except psutil.Error:  # it has just ended
                continue
            for name, value in now.items():
                held[name][quarter] = round(max(held[name][quarter], value), 1)
    if process.wait() or done != SENTENCES:
        raise UserError(f"{command[1]} ended after {done} sentences: {line.strip()}")
    return held


def grew(held: Held) -> List[str]:
    """What is larger in the last quarter than in the second."""
    return [
        f"{name} grew from {most[SECOND]} to {most[LAST]}"
        for name, most in held.items()
        if most[LAST] > most[SECOND] + (SLACK_MB if name == "megabytes" else 0)
    ]


def programs(folder: Path) -> Dict[str, Held]:
    """Train a tiny model and watch each program translate by it."""
    # fairseq-generate goes from short to long, which would look like growth: all have one length
    sizes = {"train": 64, "valid": 8, "test": SENTENCES}
    data = binary_data(folder / "text", sizes, lengths=range(8, 9))
    train(data, folder / "model", "--batch-size", 8, "--max-epoch", 2)
    draw = random.Random(0)
    lines = (draw.choices(WORDS, k=draw.randint(1, 9)) for _ in range(SENTENCES))
    write_lines(folder / "lines.xx", map(" ".join, lines))
    common = [data, "--user-dir", PACKAGE, "--beam", 4, "--cpu", "--max-len-b", 20]
    common += ["--path", folder / "model" / "checkpoint_last.pt"]
    common += ["--batch-size", 64, "--num-workers", 0]
    by_line = ["-m", "fairseq_cli.interactive", *common, "--buffer-size", 64]
    return {
        "fairseq-generate": watch(["-m", "fairseq_cli.generate", *common]),
        "fairseq-interactive": watch(by_line, stdin=folder / "lines.xx"),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = programs(Path(folder))
    soaking.record(
        "memory",
        f"memory (to {SLACK_MB} MB) and open files stay flat over {SENTENCES:,} sentences "
        "translated in one process",
        " and ".join(found),
        [f"{name}: {line}" for name, held in found.items() for line in grew(held)],
        {"sentences": SENTENCES, "slack_megabytes": SLACK_MB, **found},
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
