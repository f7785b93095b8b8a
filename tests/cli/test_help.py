"""``--help`` and ``--version`` of each subcommand, without loading heavy packages."""

import json

import pytest
from fairseq_programs import ROOT, process

from resmlp_mt import __version__
from resmlp_mt.cli.main import SUBCOMMANDS, main

OURS = ROOT / "resmlp_mt"
HEAVY = {"torch", "fairseq", "sacrebleu", "matplotlib"}
PROGRAM = """
import contextlib, io, json, sys
from resmlp_mt.cli.main import main

helps = []
for words in json.loads(sys.argv[1]):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    helps.append(out.getvalue())
modules = list(sys.modules)
status = [main(words.split()) for words in json.loads(sys.argv[2])]
print(json.dumps([helps, modules, status, list(sys.modules)]))
"""
# scores, empty and missing files
COMMANDS = ["translate --input empty --output out", "translate --input gone"]
COMMANDS += ["translate --input text --output no/out", "translate --input text --path gone.pt"]
COMMANDS += ["translate --input text --output text", "score -i text --references text"]


def test_what_needs_no_model_loads_neither_pytorch_nor_fairseq(tmp_path):
    """The help of each subcommand, and commands that are refused or quick."""
    (tmp_path / "text").write_text("a line of words\n")
    (tmp_path / "empty").touch()
    names = [[], *([name] for name in SUBCOMMANDS)]
    given = map(json.dumps, (names, COMMANDS))
    done = process("-c", PROGRAM, *given, cwd=tmp_path)
    (whole, *helps), modules, status, later = json.loads(done.stdout.splitlines()[-1])
    assert "argparse" in modules and not HEAVY & set(modules)
    assert whole.startswith("usage: resmlp-mt ")
    for name, text in zip(SUBCOMMANDS, helps, strict=True):
        assert name in whole and text.startswith("usage: resmlp-mt "), name
        assert f"  resmlp-mt {name} " in text, name
    assert status == [0, 1, 1, 1, 1, 0] and not {"torch", "fairseq"} & set(later), done.stderr
    assert not (tmp_path / "out").read_text()


def test_command_lines_without_a_subcommand(capsys):
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("usage: resmlp-mt ")
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"resmlp-mt {__version__}\n"
    with pytest.raises(SystemExit) as end:
        main(["--user-dir"])
    assert (end.value.code, capsys.readouterr().out) == (0, f"{OURS}\n")
    with pytest.raises(SystemExit) as end:
        main(["transalte"])
    assert end.value.code == 2
    said = "transalte: unknown subcommand: did you mean translate? choose from run, "
    assert said in capsys.readouterr().err
