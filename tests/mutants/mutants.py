#!/usr/bin/env python3
"""Wrong versions of the model, each of which the tests must catch.

    python tests/mutants/mutants.py [--jobs N] [--only NAME ...]

Each mutant is one replacement in a file of resmlp_mt (see catalogue.py), made in a temporary copy
of the tree. A mutant is caught when a test fails there by an assertion. The exit status is 1 if a
mutant survives, or if the tests fail on the unchanged copy.
"""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Optional

from catalogue import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("resmlp_mt", "tests", "scripts", "examples", "docs")
COPIED += ("setup.py", "pyproject.toml", "README.md")
TESTS = ("tests/reference", "tests/model", "tests/model", "tests/decoding")
# how a report begins with an assertion that fails, or pytest.raises without the error
ASSERTIONS = ("AssertionError", "assert", "Failed: DID NOT RAISE")
ENOUGH = 3  # failed tests, after which no more are run
UNCHANGED = Mutant("(unchanged)", "resmlp_mt/__init__.py", "", "")


class Result(NamedTuple):
    """What the tests said of a mutant.

    Attributes:
        failures: failed tests by file, those that failed by an assertion.
        other: how many failed by another exception.
        problem: why the tests did not run, or None.
    """

    failures: Counter
    other: int
    problem: Optional[str] = None

    @property
    def verdict(self) -> str:
        if self.problem is not None:
            return "NOT RUN"
        return "caught" if self.failures else "SURVIVED"

    def details(self) -> str:
        if self.problem is not None:
            return self.problem
        counts = [f"{count} in {name}" for name, count in self.failures.items()]
        return ", ".join(counts + [f"{self.other} by an exception"] * bool(self.other))


def mutated(mutant: Mutant, root: Path = ROOT) -> str:
    """The text of the mutant's file after the replacement.

    Raises:
        ValueError: if the old text is not there exactly once, or if the result is no program that
            differs from the present one.
    """
    text = (root / mutant.file).read_text(encoding="utf-8")
    found = text.count(mutant.old)
    if found != 1:
        raise ValueError(f"{mutant.name}: its old text is in {mutant.file} {found} times, not once")
    changed = text.replace(mutant.old, mutant.new)
    try:
        same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text))
    except SyntaxError as error:
        raise ValueError(f"{mutant.name}: {mutant.file} line {error.lineno}: no Python") from error
    if same:
        raise ValueError(f"{mutant.name}: the program stays the same")
    return changed


def copy_tree(root: Path, folder: Path) -> None:
    """Copy what the tests need."""
    for name in COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)


def test(mutant: Mutant, root: Path) -> Result:
    """Run the tests on a copy of the tree at *root* with one mutant in it."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        copy_tree(root, folder)
        if mutant is not UNCHANGED:
            (folder / mutant.file).write_text(mutated(mutant, root), encoding="utf-8")
        result = run_tests(folder, mutant, ENOUGH)
        if result.other and not result.failures:  # an assertion may fail after them
            result = run_tests(folder, mutant, 0)
        return result


def run_tests(folder: Path, mutant: Mutant, enough: int) -> Result:
    """Run the tests in *folder* until *enough* have failed, or all of them if it is 0."""
    report = folder / "report.xml"
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    # first the reference, or the tests of the room of the mutant if that is inference
    tests = reversed(TESTS) if "/decoding/" in mutant.file else TESTS
    pytest = (sys.executable, "-m", "pytest", *tests, f"--maxfail={enough}")
    pytest += ("-p", "no:cacheprovider", "--assert=plain", f"--junit-xml={report}")
    done = subprocess.run(pytest, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode not in (0, 1) or not report.exists():
        return Result(Counter(), 0, (done.stdout + done.stderr).strip().split("\n")[-1])
    return read_report(report)


def read_report(path: Path) -> Result:
    """Read pytest's report in JUnit's format."""
    failures, other = Counter(), 0
    for case in ElementTree.parse(path).iter("testcase"):
        failed = case.find("failure")
        if failed is not None and failed.get("message").startswith(ASSERTIONS):
            failures[case.get("classname").rpartition(".")[2]] += 1
        elif failed is not None or case.find("error") is not None:
            other += 1
    return Result(failures, other)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="mutants tested at a time (1)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mutants alone")
    args = parser.parse_args()
    unknown = set(args.only or ()) - {mutant.name for mutant in MUTANTS}
    if unknown:
        parser.error(f"--only {' '.join(sorted(unknown))}: catalogue.py has no such mutant")
    chosen = [mutant for mutant in MUTANTS if args.only is None or mutant.name in args.only]
    for mutant in chosen:
        mutated(mutant)
    width = max(len(mutant.name) for mutant in [UNCHANGED, *chosen])
    lost = 0
    mutants = [UNCHANGED, *chosen]
    with ThreadPoolExecutor(args.jobs) as pool, tempfile.TemporaryDirectory() as name:
        snapshot = Path(name)  # the tree may be edited meanwhile
        copy_tree(ROOT, snapshot)
        results = pool.map(lambda mutant: test(mutant, snapshot), mutants)
        for mutant, result in zip(mutants, results):
            verdict = result.verdict
            if mutant is UNCHANGED and result.problem is None:
                verdict = "FAILED" if result.failures or result.other else "passed"
            lost += verdict not in ("caught", "passed")
            print(f"{mutant.name:{width}}  {verdict:8}  {result.details()}", flush=True)
    print(f"{len(chosen)} mutants, {lost} lines above in capitals")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
