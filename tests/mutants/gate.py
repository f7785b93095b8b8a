#!/usr/bin/env python3
"""Small changes of the package that the tests once caught, and must catch still: make gate.

    python tests/mutants/gate.py [--sample N]

caught.jsonl names each by its function and its statement before and after, to be found again
wherever they move. --sample draws N of all changes and adds those that are caught.
"""

import argparse
import ast
import copy
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
from coverage import CoverageData

ROOT, CAUGHT = Path(__file__).resolve().parents[2], Path(__file__).with_name("caught.jsonl")
SWAPS = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.In: ast.NotIn}
SWAPS |= {ast.Add: ast.Sub, ast.Mult: ast.Div, ast.And: ast.Or}
SWAPS |= {new: old for old, new in SWAPS.items()}
SWAPS |= {ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult}
UNTOUCHED = {"annotation", "returns", "decorator_list", "bases"}
BLOCKS = {"body", "orelse", "finalbody", "handlers", "cases", "decorator_list"}
PYTEST = ["-q", "-p", "no:cacheprovider", "--tb=line"]
COLLECT = [*PYTEST, "-n2", "--dist=loadfile", "--durations=0", "--cov=resmlp_mt", "--cov-branch"]
COLLECT += ["--cov-context=test", "--cov-report="]
# imported once, before a process is forked for each mutant
HEAVY = ["fairseq_cli.train", "sacrebleu", "hypothesis", "matplotlib.pyplot", "onnxruntime"]
LIMIT = 60  # seconds of tests for a mutant


class Mutant(NamedTuple):
    key: tuple  # qualified name of the function, statement before, statement after
    file: str
    lines: range  # of the statement; of the whole function for a default value


def _with(node, **fields):
    node = copy.copy(node)
    vars(node).update(fields)
    return node


def _replacements(node):
    match node:
        case ast.Compare(ops=[op]) if type(op) in SWAPS:
            yield _with(node, ops=[SWAPS[type(op)]()])
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign() if type(node.op) in SWAPS:
            yield _with(node, op=SWAPS[type(node.op)]())
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield from (ast.Constant(node.value + 1), ast.Constant(node.value - 1))
        case ast.If() | ast.While() | ast.IfExp():
            yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Return(value=ast.expr()) if ast.unparse(node) != "return None":
            yield ast.Return(ast.Constant(None))
        case ast.Raise() | ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Call(args=[first, second, *rest]) if not isinstance(second, ast.Starred):
            yield _with(node, args=[second, first, *rest])


def _header(statement) -> str:
    """A statement without its blocks; of a function its default values."""
    if isinstance(statement, ast.FunctionDef):
        defaults = [*statement.args.defaults, *filter(None, statement.args.kw_defaults)]
        return f"def {statement.name}: {', '.join(map(ast.unparse, defaults))}"
    return ast.unparse(_with(statement, **{name: [] for name in BLOCKS & set(statement._fields)}))


def _changes(node, function="", statement=None):
    """Make each change below a node and take it back; yields its key and statement meanwhile."""
    for field, value in ast.iter_fields(node):
        places = [(value, partial(setattr, node, field))]
        if isinstance(value, list):
            places = [(child, partial(value.__setitem__, i)) for i, child in enumerate(value)]
        for child, put in places:
            if not isinstance(child, ast.AST) or field in UNTOUCHED:
                continue
            inner = child if isinstance(child, ast.stmt) else statement
            for new in _replacements(child):
                before = _header(inner)
                put(new)
                yield (function, before, _header(new if child is inner else inner)), inner
                put(child)
            named = isinstance(child, (ast.FunctionDef, ast.ClassDef))
            name = f"{function}.{child.name}".lstrip(".") if named else function
            yield from _changes(child, name, inner)


def every_mutant(root: Path) -> list[Mutant]:
    found = []
    for path in sorted(root.glob("resmlp_mt/**/*.py")):
        for key, statement in _changes(ast.parse(path.read_text("utf-8"))):
            last = statement.end_lineno
            if getattr(statement, "body", None) and not isinstance(statement, ast.FunctionDef):
                last = max(statement.lineno, statement.body[0].lineno - 1)
            lines = range(statement.lineno, last + 1)
            found.append(Mutant(key, str(path.relative_to(root)), lines))
    return found


def find(keys: list[tuple], mutants: list[Mutant]) -> list[Mutant]:
    """Those of *keys* that can still be made: in a function of the same name or, if the statement
    is there only once and long enough to be known by itself, in any."""
    by_key = {mutant.key: mutant for mutant in mutants}
    alike = defaultdict(list)
    for mutant in mutants:
        alike[mutant.key[1:]].append(mutant)
    found = []
    for key in keys:
        same = alike[key[1:]]
        if key in by_key or len(same) == 1 and len(key[1]) > 20:
            found.append(by_key.get(key, same[0]))
    return found


class Tests:
    """The tests, run in forks of this process in a *copy* of the repository."""

    def __init__(self, copy: Path):
        self.copy, self.failed = copy, copy / "failed.txt"
        for name in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
        os.environ |= {"PYTHONPATH": str(copy), "MPLBACKEND": "agg"}
        done = subprocess.run([sys.executable, "-m", "pytest", *COLLECT], cwd=copy, stdout=-1)
        if done.returncode:
            sys.exit(f"tests fail without a mutant:\n{done.stdout.decode()}")
        self.data, self.seconds = CoverageData(str(copy / ".coverage")), defaultdict(float)
        self.data.read()
        for seconds, test in re.findall(r"(?m)^([\d.]+)s \w+ +(tests.+)", done.stdout.decode()):
            self.seconds[test] += float(seconds)
        for module in HEAVY:
            import_module(module)
        os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True

    def covering(self, mutant: Mutant) -> list[str]:
        """The fastest that cover a mutant, of LIMIT seconds together, or a single one."""
        lines = self.data.contexts_by_lineno(str(self.copy / mutant.file))
        # what runs at import is charged to no test: there all count that come into the file
        wanted = mutant.lines if mutant.key[0] else lines
        runs = {run for line in wanted for run in lines.get(line, ()) if run}
        # what a shared fixture runs is charged to the first test that uses it
        files = {run.split("::")[0] for run in runs if run.endswith("|setup")}
        found = {run.rpartition("|")[0] for run in runs}
        found |= {test for test in self.seconds if test.split("::")[0] in files}
        chosen, left = [], LIMIT
        for test in sorted(found, key=lambda test: (self.seconds[test], test)):
            left -= self.seconds[test] + 0.05
            if chosen and left < 0:
                break
            chosen.append(test)
        return chosen

    def catch(self, mutant: Mutant) -> str:
        """The test that fails with the mutant, "" if none does."""
        path = self.copy / mutant.file
        text, times = path.read_bytes(), path.stat()
        tree = ast.parse(text)
        changed = next(ast.unparse(tree) for key, _ in _changes(tree) if key == mutant.key)
        path.write_text(changed, "utf-8")
        process = multiprocessing.get_context("fork").Process(target=self._run, args=(mutant,))
        process.start()
        process.join(20 * LIMIT)  # for tests that wait for each other
        if process.is_alive():
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
        path.write_bytes(text)
        os.utime(path, (times.st_atime, times.st_mtime))  # what was compiled of it is valid again
        said = (self.copy / "output.txt").read_text("utf-8", "replace")
        found = re.search(r"(?m)^(?:FAILED|ERROR) (.+?)(?: - |$)", said)
        return "" if process.exitcode == 0 else found[1] if found else "(broken off)"

    def _run(self, mutant: Mutant) -> None:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (10 * LIMIT, 10 * LIMIT))
        os.chdir(self.copy)
        with open("output.txt", "w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        tests = self.covering(mutant)
        os._exit(pytest.main([*PYTEST, "-x", *tests]) if tests else 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, metavar="N")
    sample = parser.parse_args().sample
    keys = [tuple(json.loads(line)) for line in CAUGHT.read_text("utf-8").splitlines()]
    there = every_mutant(ROOT)
    mutants = random.Random(len(keys)).sample(there, sample) if sample else find(keys, there)
    survivors = []
    with tempfile.TemporaryDirectory() as folder, CAUGHT.open("a", encoding="utf-8") as file:
        tests = Tests(Path(folder))
        for number, mutant in enumerate(mutants, 1):
            test = tests.catch(mutant)
            print(f"{number}/{len(mutants)}", test or "SURVIVES", *mutant, flush=True)
            if not test:
                survivors.append(mutant)
            elif sample:
                file.write(json.dumps(mutant.key, ensure_ascii=False) + "\n")
    print(*(f"survives: {mutant}" for mutant in survivors), sep="\n")
    if not sample:
        print(f"{len(keys)} caught before, of which {len(keys) - len(mutants)} are gone")
    print(f"{len(mutants) - len(survivors)} caught, {len(survivors)} survive")
    return bool(survivors) and not sample


if __name__ == "__main__":
    sys.exit(main())
