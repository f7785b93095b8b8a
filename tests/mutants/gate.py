#!/usr/bin/env python3
"""Small changes of the package that the tests once caught, and must catch still: make gate.

caught.jsonl names each by its function and its statement before and after, so that it is found
wherever they move. With a number N as argument it draws N of all changes and adds the caught.
"""

import ast
import copy
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import fairseq_cli.train  # noqa: F401  once, before a process is forked for each mutant
import pytest
from coverage import CoverageData

ROOT, CAUGHT = Path(__file__).resolve().parents[2], Path(__file__).with_name("caught.jsonl")
SWAPS = {ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.In: ast.NotIn}
SWAPS |= {ast.Add: ast.Sub, ast.Mult: ast.Div, ast.And: ast.Or}
SWAPS |= {new: old for old, new in SWAPS.items()} | dict.fromkeys((ast.FloorDiv, ast.Mod), ast.Mult)
BLOCKS = {"body", "orelse", "finalbody", "handlers", "cases", "decorator_list"}
UNTOUCHED = {"annotation", "returns", "decorator_list", "bases"}
COLLECT = "-q -p no:cacheprovider -n2 --dist=loadfile --durations=0 --cov --cov-context=test"
SECONDS = 60  # of tests for a mutant


class Mutant(NamedTuple):
    key: tuple  # function, statement before, statement after
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
            if field in UNTOUCHED or not isinstance(child, ast.AST):
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


def every_mutant() -> list[Mutant]:
    found = []
    for path in sorted(ROOT.glob("resmlp_mt/**/*.py")):
        for key, statement in _changes(ast.parse(path.read_text("utf-8"))):
            lines = range(statement.lineno, statement.end_lineno + 1)
            if getattr(statement, "body", None) and not isinstance(statement, ast.FunctionDef):
                lines = range(lines[0], max(lines[0] + 1, statement.body[0].lineno))
            found.append(Mutant(key, str(path.relative_to(ROOT)), lines))
    return found


def find(keys: list[tuple], mutants: list[Mutant]) -> list[Mutant]:
    """Those that can still be made; a long statement that is there once, in any function."""
    by_key = {mutant.key: mutant for mutant in mutants}
    alike = defaultdict(list)
    for mutant in mutants:
        alike[mutant.key[1:]].append(mutant)
    alone = {rest: same[0] for rest, same in alike.items() if len(same) == 1 and len(rest[0]) > 20}
    return list(filter(None, (by_key.get(key) or alone.get(key[1:]) for key in keys)))


class Tests:
    def __init__(self, copy: Path):
        self.copy, self.seconds = copy, defaultdict(float)
        for name in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
        os.environ |= {"PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
        run = [sys.executable, "-m", "pytest", *COLLECT.split()]
        done = subprocess.run(run, cwd=copy, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"tests fail without a mutant:\n{done.stdout}")
        for seconds, test in re.findall(r"(?m)^([\d.]+)s \w+ +(tests.+)", done.stdout):
            self.seconds[test] += float(seconds)
        self.data = CoverageData(str(copy / ".coverage"))
        self.data.read()
        os.environ["PYTHONDONTWRITEBYTECODE"], sys.dont_write_bytecode = "1", True

    def covering(self, mutant: Mutant) -> list[str]:
        """The fastest that cover a mutant, of SECONDS together, or a single one."""
        lines = self.data.contexts_by_lineno(str(self.copy / mutant.file))
        # at import no test is charged: then all count that come into the file
        wanted = mutant.lines if mutant.key[0] else lines
        runs = {run for line in wanted for run in lines.get(line, ()) if run}
        # for a fixture the first test is charged: then all of its file count
        files = {run.split("::")[0] for run in runs if run.endswith("|setup")}
        found = {run.rpartition("|")[0] for run in runs}
        found |= {test for test in self.seconds if test.split("::")[0] in files}
        fastest = sorted(found, key=lambda test: (self.seconds[test], test))
        ends = accumulate(self.seconds[test] + 0.05 for test in fastest)
        return [test for test, end in zip(fastest, ends) if end < SECONDS or test == fastest[0]]

    def catch(self, mutant: Mutant) -> str:
        """The test that fails with the mutant, "" if none does."""
        path = self.copy / mutant.file
        text, tests = path.read_text("utf-8"), self.covering(mutant)
        tree = ast.parse(text)
        changed = next(ast.unparse(tree) for key, _ in _changes(tree) if key == mutant.key)
        path.write_text(changed, "utf-8")
        process = multiprocessing.get_context("fork").Process(target=self._run, args=(tests,))
        process.start()
        process.join(8 * SECONDS)
        if process.is_alive():
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
        path.write_text(text, "utf-8")
        said = (self.copy / "output.txt").read_text("utf-8", "replace")
        found = re.search(r"(?m)^(?:FAILED|ERROR) (.+?)(?: - |$)", said)
        return "" if process.exitcode == 0 else found[1] if found else "(broken off)"

    def _run(self, tests: list[str]) -> None:
        os.setsid()
        os.chdir(self.copy)
        with open("output.txt", "w") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        os._exit(pytest.main(["-xq", "-p", "no:cacheprovider", *tests]) if tests else 0)


def main() -> int:
    sample = int(sys.argv[1]) if sys.argv[1:] else 0
    keys = [tuple(json.loads(line)) for line in CAUGHT.read_text("utf-8").splitlines()]
    there, survivors = every_mutant(), []
    mutants = random.Random(len(keys)).sample(there, sample) if sample else find(keys, there)
    if gone := 0 if sample else len(keys) - len(mutants):
        print(f"{gone} of {len(keys)} are of code that is no longer there: delete their lines")
    with tempfile.TemporaryDirectory() as folder, CAUGHT.open("a", encoding="utf-8") as file:
        tests = Tests(Path(folder))
        for number, mutant in enumerate(mutants, 1):
            test = tests.catch(mutant)
            print(f"{number}/{len(mutants)}", test or "SURVIVES", *mutant, flush=True)
            if not test:
                survivors.append(mutant)
            elif sample:
                file.write(json.dumps(mutant.key, ensure_ascii=False) + "\n")
    print(*survivors, f"{len(survivors)} of {len(mutants)} mutants survive", sep="\n")
    return bool(survivors) and not sample


if __name__ == "__main__":
    sys.exit(main())
