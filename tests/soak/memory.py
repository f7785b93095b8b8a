#!/usr/bin/env python3
"""Twenty thousand sentences through one process of fairseq-generate and of fairseq-interactive:
memory is flat after the first quarter, and no file stays open.

    python tests/soak/memory.py [--quick --results DIR]
"""

import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import List, NamedTuple

import soaking
from cli import ROOT, call, train
from cli_fixtures import VOCABULARY

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import write_lines

# what the allocator may still gain once all sizes of batches have been seen
SLACK_MB = 3


class Sample(NamedTuple):
    """What a process holds when *done* sentences are translated."""

    done: int
    megabytes: float
    files: int


def look(pid: int, done: int) -> Sample:
    """Resident memory and open files of a process, from Linux's /proc.

    Raises:
        OSError: if the process has ended.
    """
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return Sample(
        done, int(resident.split()[1]) / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir()))
    )


def growth(samples: List[Sample], sentences: int) -> dict:
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


def grew(found: dict) -> List[str]:
    """What is larger in the last quarter than in the second."""
    second, last = found["second"], found["last"]
    lines = []
    if last["megabytes"] > second["megabytes"] + SLACK_MB:
        lines.append(f"memory grew from {second['megabytes']} to {last['megabytes']} MB")
    if last["files"] > second["files"]:
        lines.append(f"open files grew from {second['files']} to {last['files']}")
    return lines


def watch(command: List[str], output: Path, mark: str, stdin: Path = None) -> List[Sample]:
    """Run a program and look at it until it ends.

    Args:
        command: Python's arguments.
        output: file for what it prints.
        mark: what a line of it begins with that stands for a sentence translated.
        stdin: file that it reads.

    Raises:
        UserError: if it fails.
    """
    samples = []
    with open(output, "wb") as file, open(stdin or "/dev/null", "rb") as text:
        process = subprocess.Popen(
            [sys.executable, "-u", *map(str, command)],
            stdin=text,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
        )
        done, position = 0, 0
        while process.poll() is None:
            with open(output, "rb") as written:
                written.seek(position)
                new = written.read()
            whole = new[: new.rfind(b"\n") + 1]
            position += len(whole)
            done += sum(line.startswith(mark.encode()) for line in whole.splitlines())
            try:
                samples.append(look(process.pid, done))
            except (OSError, StopIteration):
                break  # it has just ended
            time.sleep(0.05)
    if process.wait():
        last = output.read_text(errors="replace").strip().splitlines()[-1:]
        raise UserError(f"{command[1]} failed: {' '.join(last)} (its output: {output})")
    return samples


def prepare(folder: Path, sentences: int) -> dict:
    """A tiny trained model, its data with *sentences* to translate, and the same as text."""
    draw = random.Random(0)

    def some(number: int, lengths: range) -> List[str]:
        return [" ".join(draw.choices(VOCABULARY, k=draw.choice(lengths))) for _ in range(number)]

    # fairseq-generate goes from short to long, which would look like growth: all have one length
    sizes = {"train": some(64, range(1, 10)), "valid": some(8, range(1, 10))}
    sizes["test"] = some(sentences, range(8, 9))
    for split, lines in sizes.items():
        for language in ("xx", "yy"):
            write_lines(folder / f"{split}.{language}", lines)
    write_lines(folder / "lines.xx", some(sentences, range(1, 10)))
    data = folder / "data-bin"
    prefixes = [word for split in sizes for word in (f"--{split}pref", folder / split)]
    options = ("--source-lang", "xx", "--target-lang", "yy", "--joined-dictionary")
    call("preprocess", *options, "--destdir", data, "--workers", 1, *prefixes)
    train(data, folder / "model", "--batch-size", 8, "--max-epoch", 2)
    return {
        "data": data,
        "model": folder / "model" / "checkpoint_last.pt",
        "lines": folder / "lines.xx",
    }


def programs(made: dict) -> dict:
    """For each program its command, what a translation begins with, its standard input."""
    common = [made["data"], "--user-dir", ROOT / "resmlp_mt", "--path", made["model"], "--beam", 4]
    common += ["--cpu", "--max-len-b", 20, "--batch-size", 64, "--num-workers", 0]
    buffer = ["--buffer-size", 64]
    return {
        "fairseq-generate": (["-m", "fairseq_cli.generate", *common], "H-", None),
        "fairseq-interactive": (
            ["-m", "fairseq_cli.interactive", *common, *buffer],
            "H-",
            made["lines"],
        ),
    }


def main() -> None:
    args = soaking.parse(__doc__)
    sentences = 2000 if args.quick else 20000
    details, lost = {}, []
    with tempfile.TemporaryDirectory() as folder:
        made = prepare(Path(folder), sentences)
        for name, (command, mark, stdin) in programs(made).items():
            samples = watch(command, Path(folder) / f"{name}.log", mark, stdin)
            details[name] = growth(samples, sentences)
            lost += [f"{name}: {line}" for line in grew(details[name])]
            print(name, details[name], flush=True)
    soaking.record(
        "memory",
        f"memory (to {SLACK_MB} MB) and open files stay flat over {sentences:,} sentences "
        "translated in one process",
        " and ".join(details),
        lost,
        {"sentences": sentences, "slack_megabytes": SLACK_MB, **details},
        args.results,
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
