#!/usr/bin/env python3
"""What depends on versions, under the Pythons and the PyTorch versions that setup.py allows.

    python tests/soak/compatibility.py [--envs DIR]

It makes an environment for each (scripts/make_env.sh; those that are complete in build/envs, or in
the folder of --envs, are used as they are) and runs the tests of the plugin, the models, the
repairs of fairseq, the packed products and the kernels of torch.compile in it. Each writes a
checkpoint of every layout of the parameters with what its model answers, and loads those of all the
others and those kept in tests/fixtures: the answers must be the same. With the CUDA builds of
PyTorch an environment takes some 6 GB.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, List

from soaking import record

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError

ROOT = Path(__file__).parents[2]
MAKE = ROOT / "tests" / "fixtures" / "make.py"
TESTS = ("tests/plugin", "tests/model", "tests/fairseq_fixes", "tests/decoding/test_packing.py")
TESTS += ("tests/decoding/compiled_kernels.py",)
# Python, and PyTorch: the floor of setup.py, the pinned version, the newest at this writing
ENVIRONMENTS = (("3.11", "2.10.0"), ("3.11", "2.13.0"), ("3.12", "2.13.0"), ("3.13", "2.15.0"))


def run(*command) -> subprocess.CompletedProcess:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    environment["PYTHONPATH"] = str(ROOT)  # an environment may have been made of another checkout
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)


def last_line(said: str) -> str:
    return (said.strip().splitlines() or ["nothing printed"])[-1].strip("= ")


def make_environment(folder: Path, python: str, torch: str) -> Path:
    """Its Python.

    Raises:
        UserError: if it cannot be made. The log is beside it.
    """
    done = run(ROOT / "scripts" / "make_env.sh", folder, f"python{python}", torch)
    if done.returncode:
        raise UserError(f"{folder}: {last_line(done.stderr)}")
    return folder / "bin" / "python"


def run_tests(python: Path, log: Path) -> str:
    """The closing line of pytest.

    Raises:
        UserError: if a test fails. The output is in *log*.
    """
    done = run(python, "-m", "pytest", "-p", "no:cacheprovider", *TESTS)
    log.write_text(done.stdout + done.stderr, encoding="utf-8")
    if done.returncode or not re.search(r"\d+ passed", done.stdout):
        raise UserError(f"{last_line(done.stdout)} (output: {log})")
    return last_line(done.stdout)


def cross(pythons: Dict[str, Path], folder: Path) -> List[str]:
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
    envs = parser.parse_args().envs.absolute()
    envs.mkdir(parents=True, exist_ok=True)
    pythons, tests, lost = {}, {}, []
    for python, torch in ENVIRONMENTS:
        name = f"{python}-{torch}"
        try:
            pythons[name] = make_environment(envs / name, python, torch)
            tests[name] = run_tests(pythons[name], envs / f"{name}.tests.log")
            print(f"{name}: {tests[name]}", flush=True)
        except UserError as error:
            lost.append(f"{name}: {error}")
            print(f"{name}: {error}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        lost += cross(pythons, Path(folder))
    names = [f"{torch} on Python {python}" for python, torch in ENVIRONMENTS]
    kept = len(list(MAKE.parent.glob("*.pt")))
    record(
        "compatibility",
        "the tests of the plugin, the models and the repairs of fairseq pass with PyTorch "
        f"{', '.join(names)}, and each of these loads the checkpoints of every other",
        f"{len(names)} environments, {kept} checkpoints from each and from tests/fixtures",
        lost,
        {"tests": tests},
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
