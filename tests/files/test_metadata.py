"""What is imported is required, in the versions of ``make env``; what is read is packaged."""

import ast
import re
import runpy
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from unittest import mock

from packaging.requirements import Requirement


def test_what_is_imported_is_required_as_it_is_pinned():
    with mock.patch("setuptools.setup") as setup:
        runpy.run_path("setup.py")
    words = setup.call_args.kwargs
    given = words["package_data"].items()
    packed = [[*Path(package.replace(".", "/")).glob(p)] for package, some in given for p in some]
    files = {path for path in Path("resmlp_mt").rglob("*.*") if path.suffix not in (".py", ".pyc")}
    assert files == set(sum(packed, []))
    lists = [words["install_requires"], *words["extras_require"].values()]
    required = {each.name: each.specifier for each in map(Requirement, sum(lists, []))}
    pins = "".join(Path(f"scripts/{name}.txt").read_text() for name in ("requirements", "torch"))
    pinned = dict(re.findall(r"^([\w-]+)==([\w.]+)", pins, re.MULTILINE))
    wrong = {x: pinned[x] for x in required if x in pinned and pinned[x] not in required[x]}
    assert not wrong and {"torch", "numpy", "fairseq-fixed"} <= required.keys() & pinned.keys()
    imported = set()
    for path in Path("resmlp_mt").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module)
    homes, known = packages_distributions(), {*sys.stdlib_module_names, "resmlp_mt"}
    for name in {name.partition(".")[0] for name in imported} - known:
        assert required.keys() & set(homes[name]), name
