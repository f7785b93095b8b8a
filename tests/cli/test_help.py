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

helps = {}
for words in json.loads(sys.argv[1]):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*words, "--help"])
    helps[" ".join(words)] = out.getvalue()
print(json.dumps([helps, sorted(sys.modules)]))
"""


def python(program, folder, *words):
    return process("-c", program, *words, cwd=folder, path=ROOT)


def test_help_of_each_subcommand_imports_nothing_heavy():
    commands = [[], *([name] for name in SUBCOMMANDS)]
    done = python(PROGRAM, ROOT, json.dumps(commands))
    helps, modules = json.loads(done.stdout)
    assert "argparse" in modules and not HEAVY & set(modules)
    for name, text in helps.items():
        assert text.startswith("usage: resmlp-mt "), name
    for name in SUBCOMMANDS:
        assert name in helps[""] and f"  resmlp-mt {name} " in helps[name], name


def test_commands_without_a_model_load_neither_pytorch_nor_fairseq(tmp_path):
    """Scores, empty and missing files."""
    (tmp_path / "text").write_text("a line of words\n")
    program = "import json, sys\nfrom resmlp_mt.cli.main import main\n"
    program += "status = [main(words.split()) for words in json.loads(sys.argv[1])]\n"
    program += "print(status, *({'torch', 'fairseq'} & set(sys.modules)), file=sys.stderr)"
    commands = ["score -i text --references text"]
    (tmp_path / "empty").touch()
    commands.append("translate --input empty --output out")
    commands += ["translate --input gone", "translate --input text --output no/out"]
    commands += ["translate --input text --path gone.pt", "translate --input text --output text"]
    done = python(program, tmp_path, json.dumps(commands))
    assert done.stderr.splitlines()[-1] == "[0, 0, 1, 1, 1, 1]", done.stderr
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


BARE = """
import sys
from resmlp_mt.cli.main import main

sys.modules["matplotlib"] = None  # importing it fails
sys.exit(main("plot matrices a.pt -o a.png".split()))
"""


def test_a_missing_package_is_named_in_one_line_and_nothing_is_written(tmp_path):
    done = python(BARE, tmp_path)
    (plot,) = done.stderr.splitlines()
    assert done.returncode == 1 and not list(tmp_path.iterdir())
    assert "pip install matplotlib" in plot
