#!/usr/bin/env python3
"""The suite under every Python and PyTorch at the ends of what we claim; checkpoints between them.

    python tests/soak/compatibility.py

It makes an environment for each (scripts/make_env.sh; those that are complete in build/envs, or in
the folder of --envs, are used as they are), runs the suite in it, has it write a checkpoint of each
layout of the parameters with what its model answers, and load those of all the others and those
kept in tests/fixtures: the answers must be the same. With PyTorch's CUDA builds an environment
takes some 7 GB.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import List

from soaking import RESULTS, record

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError

ROOT = Path(__file__).parents[2]
MAKE = ROOT / "tests" / "fixtures" / "make.py"
PYTHONS = ("3.11", "3.12")
OLDEST, NEWEST = "2.10.0", "2.15.0"  # PyTorch: setup.py's floor, and the newest at this writing
QUICK = ("tests/test_checkpoint_fixture.py", "tests/test_compat.py", "tests/test_incremental.py")


def run(*command) -> subprocess.CompletedProcess:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)


def make_environment(folder: Path, python: str, torch: str) -> Path:
    """Its Python.

    Raises:
        UserError: if it cannot be made; the log is beside it.
    """
    done = run(ROOT / "scripts" / "make_env.sh", folder, f"python{python}", torch)
    if done.returncode:
        raise UserError(f"{folder}: {last_line(done.stderr)}")
    return folder / "bin" / "python"


def last_line(said: str) -> str:
    return (said.strip().splitlines() or ["no word of why"])[-1]


def run_suite(python: Path, tests: List[str], log: Path) -> str:
    """pytest's closing line.

    Raises:
        UserError: if a test fails; the output is in *log*.
    """
    both_cores = ("-n", "2", "--dist", "loadfile")  # as make test
    done = run(python, "-m", "pytest", "-p", "no:cacheprovider", *both_cores, *tests)
    log.write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode or not re.search(r"\d+ passed", done.stdout):
        raise UserError(f"{last_line(done.stdout)} (output: {log})")
    return last_line(done.stdout)


def cross(pythons: dict, folder: Path) -> List[str]:
    """A line for each environment that cannot write, or cannot load what another wrote."""
    lost = []
    for name, python in pythons.items():
        done = run(python, MAKE, folder / name)
        if done.returncode:
            lost.append(f"{name}: writing: {last_line(done.stderr)}")
    written = [folder / name for name in pythons if (folder / name / "answers.json").exists()]
    for name, python in pythons.items():
        done = run(python, MAKE, "--check", MAKE.parent, *written)
        if done.returncode:
            lost.append(f"{name}: loading: {last_line(done.stderr)}")
        else:
            print(f"{name}: {last_line(done.stdout)}", flush=True)
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--envs", type=Path, default=ROOT / "build" / "envs", metavar="DIR")
    parser.add_argument("--pythons", nargs="+", default=PYTHONS, metavar="3.N")
    parser.add_argument("--torches", nargs="+", default=(OLDEST, NEWEST), metavar="VERSION")
    parser.add_argument("--quick", action="store_true", help="three test files, not the suite")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the result goes")
    args = parser.parse_args()
    if args.quick and args.results == RESULTS:
        raise UserError("--quick: name a folder for its result, which is not to be kept: --results")
    tests = list(QUICK) if args.quick else []
    args.envs.mkdir(parents=True, exist_ok=True)
    names = {f"{p}-{t}": (p, t) for p in args.pythons for t in args.torches}
    pythons, suites, lost = {}, {}, []
    for name, (python, torch) in names.items():
        try:
            pythons[name] = make_environment(args.envs.absolute() / name, python, torch)
            suites[name] = run_suite(pythons[name], tests, args.envs / f"{name}.suite.log")
            print(f"{name}: {suites[name]}", flush=True)
        except UserError as error:
            lost.append(f"{name}: {error}")
            print(f"{name}: {error}", flush=True)
    kept = len(list(MAKE.parent.glob("*.pt")))
    with tempfile.TemporaryDirectory() as folder:
        lost += cross(pythons, Path(folder))
    record(
        "compatibility",
        f"the suite passes on Python {' and '.join(args.pythons)} with PyTorch "
        f"{' and '.join(args.torches)}, and each loads every other's checkpoints",
        f"{len(names)} environments, {kept} checkpoints from each and from tests/fixtures",
        lost,
        {"suites": suites},
        args.results,
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
