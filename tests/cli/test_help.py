"""What ``--help`` of each subcommand prints, without any of the heavy packages."""

import json
import re
import subprocess
import sys

import pytest
from cli import ROOT

from resmlp_mt.cli.main import SUBCOMMANDS
from resmlp_mt.cli.plot import KINDS

HEAVY = {"torch", "fairseq", "sacrebleu", "matplotlib"}
PROGRAM = """
import contextlib, io, json, sys
from resmlp_mt.cli.main import main

helps = {}
for words in json.loads(sys.argv[1]):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    helps[" ".join(words)] = out.getvalue()
print(json.dumps([helps, sorted(sys.modules)]))
"""


@pytest.fixture(scope="module")
def help_and_modules():
    """The help by command, and the modules that were imported for all of it."""
    commands = [[], *([name] for name in SUBCOMMANDS), *(["plot", kind] for kind in KINDS)]
    command = [sys.executable, "-c", PROGRAM, json.dumps(commands)]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)


def test_help_imports_nothing_heavy(help_and_modules):
    _, modules = help_and_modules
    assert "argparse" in modules and not HEAVY & set(modules)


def test_help_shows_the_usage_and_a_command(help_and_modules):
    helps, _ = help_and_modules
    for name, text in helps.items():
        assert text.startswith("usage: resmlp-mt "), name
    for name in SUBCOMMANDS:
        assert name in helps[""] and f"  resmlp-mt {name} " in helps[name], name


def test_help_writes_defaults_alike(help_and_modules):
    """As ``(default: 4)``."""
    helps, _ = help_and_modules
    assert all("(default: " in helps[name] for name in ("translate", "plot rows", "benchmark"))
    for name, text in helps.items():
        assert not re.findall(r"\([\d.]+\)|\(default[^:]", text), name
