"""``--help``, exit status and last line of a command, closed streams, progress."""

import io
import json
import os
import re
import signal
import sys

import pytest
import torch
from command import refused, shell
from fairseq_programs import PACKAGE, process

from resmlp_mt import __version__
from resmlp_mt.cli.main import SUBCOMMANDS, main, run_main
from resmlp_mt.pipeline.train.recipe import FOLDER
from resmlp_mt_runtime.command import main as runtimes
from resmlp_mt_runtime.errors import printable
from resmlp_mt_runtime.files import whole_file
from resmlp_mt_runtime.terminal import Progress


@pytest.mark.parametrize(
    "words, status, said",
    [
        ("score -r in -i in > /dev/full", 1, "No space left on device"),
        ("score -r in -i in | true; exit ${PIPESTATUS[0]}", 141, ""),
        ("score -r in -i in >&-", 1, "standard output is closed: redirect it"),
        ("score -r in <&-", 1, "standard input is closed: give a file, or pipe the text in"),
        ("score -r in -i gone 2>&-", 1, ""),  # goes nowhere else
        ("translate -i in >> in", 1, "standard output is an input: choose another file to write"),
    ],
)
def test_streams_that_are_full_or_closed_or_an_input(words, status, said, tmp_path):
    (tmp_path / "in").write_text("a line of words\n")
    done = shell(f"set +e; resmlp-mt {words}", tmp_path, PYTHONUNBUFFERED="")
    assert (done.returncode, done.stdout) == (status, "")
    assert done.stderr == (f"resmlp-mt {words.split()[0]}: error: {said}\n" if said else "")


def test_a_signal_removes_partial_files_unless_it_is_ignored(tmp_path, capsys):
    def write():
        with whole_file(tmp_path / "file") as temporary:
            temporary.touch()
            os.kill(os.getpid(), number)

    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
    before = {each: signal.signal(each, signal.SIG_DFL) for each in numbers}  # nohup runs this, too
    try:
        for number in numbers:
            assert run_main(write, "train") == 128 + number and not list(tmp_path.iterdir())
            said = "resmlp-mt train: stopped: the same command resumes it\n"
            assert capsys.readouterr().err == f"\n{said}"
        signal.signal(number, signal.SIG_IGN)  # as nohup does
        assert run_main(write) == 0 and list(tmp_path.iterdir())
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


WRITTEN = "\u0645\u06cc\u200c\u0631\u0648\u0645"  # Persian, with a ZERO WIDTH NON-JOINER
EVIL = "x\nresmlp-mt, error, run this\r\x1b]0;title\x07\x1b[2J\x9b1m\u202e " + WRITTEN
SHOWN = r"x resmlp-mt, error, run this \x1b]0;title\x07\x1b[2J\x9b1m\u202e " + WRITTEN


def test_a_message_of_many_spaces_is_printed_at_once():
    assert printable(text := "a" + " " * 300_000 + "b") == text and printable("a \t\n b ") == "a b"


def test_a_file_writes_no_lines_and_no_escapes_of_its_own(tmp_path, monkeypatch):
    """The names of a file, of a recipe's key, of an option's value and of a weight."""
    monkeypatch.chdir(tmp_path)
    key = "".join(f"\\u{ord(c):04x}" for c in EVIL)
    recipe = (FOLDER / "small.toml").read_text()
    (tmp_path / "own.toml").write_text(f'{recipe}\n["{key}"]\n')
    torch.save({"model": {EVIL: torch.tensor([float("nan")])}}, "nan.pt")
    torch.save({"model": {}, "cfg": {EVIL: b"x"}}, "bytes.pt")
    for words, said in (
        (("train", "data", "--out", "out", "--recipe", "own.toml"), f"own.toml: {SHOWN}: no such"),
        (("translate", "--path", EVIL), f"{SHOWN}: no such file"),
        (("train", EVIL, "--out", "out"), f"{SHOWN} has no train."),
        (("average", "--inputs", "nan.pt", "--output", "out.pt"), f"nan.pt: {SHOWN} has NaN"),
        (("average", "--inputs", "bytes.pt", "--output", "o"), f"{SHOWN} is not data, but bytes"),
    ):
        refused(said, *words)


@pytest.mark.parametrize("terminal", [True, False])
def test_progress(terminal, monkeypatch):
    """A terminal shows a bar and removes it; a log gets plain lines, and none of what is quick."""
    now, stream = [0.0], io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("translate", 40, "lines") as shown:
        for seconds in (0.1, 0.1, 50, 50):
            now[0] += seconds
            shown.update(10)
        shown.say("a line of its own")
    output = stream.getvalue()
    if terminal:
        assert output.count("\n") == 1 and "\ra line of its own\n" in output
        assert output.endswith(" \r")
        assert re.findall(r"\r(translate [^\r]+?) *(?=\r|$)", output)[:3] == [
            "translate #####----- 20 of 40 lines, 0:00:00 left",
            "translate #######--- 30 of 40 lines, 0:00:17 left",
            "translate ########## 40 of 40 lines, 0:00:00 left",
        ]
    else:
        lines = "translate: 30 of 40 lines, 0:00:17 left\ntranslate: 40 of 40 lines, 0:00:00 left\n"
        assert output == f"{lines}a line of its own\n"


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
# an empty and a missing file, refusals, and scores
COMMANDS = ["translate --input empty --output out", "translate --input gone"]
COMMANDS += ["translate --input text --output no/out", "translate --input text --path gone.pt"]
COMMANDS += ["translate --input text --output text", "score -i text --references text"]


def test_what_needs_no_model_loads_neither_pytorch_nor_fairseq(tmp_path):
    """The help of each subcommand, and commands that are refused or quick."""
    (tmp_path / "text").write_text("a line of words\n")
    (tmp_path / "empty").touch()
    names = [[], *([name] for name in SUBCOMMANDS)]
    done = process("-c", PROGRAM, *map(json.dumps, (names, COMMANDS)), cwd=tmp_path)
    (whole, *helps), modules, status, later = json.loads(done.stdout.splitlines()[-1])
    heavy = {"torch", "fairseq", "sacrebleu", "matplotlib"}
    assert "argparse" in modules and not heavy & set(modules)
    assert whole.startswith("usage: resmlp-mt ")
    for name, text in zip(SUBCOMMANDS, helps, strict=True):
        assert name in whole and text.startswith("usage: resmlp-mt "), name
        assert f"  resmlp-mt {name} " in text, name
    assert status == [0, 1, 1, 1, 1, 0] and not {"torch", "fairseq"} & set(later), done.stderr
    assert not (tmp_path / "out").read_text()


def test_command_lines_without_a_subcommand(capsys):
    assert main([]) == 2
    assert capsys.readouterr().out.startswith("usage: resmlp-mt ")
    for option, said in (("--version", f"resmlp-mt {__version__}"), ("--user-dir", str(PACKAGE))):
        with pytest.raises(SystemExit) as end:
            main([option])
        assert (end.value.code, capsys.readouterr().out) == (0, f"{said}\n")
    with pytest.raises(SystemExit, match="^0$"):
        runtimes(["--version"])
    assert capsys.readouterr().out == f"resmlp-translate {__version__}\n"
    for words in (["resmlp_mt", "translate"], ["resmlp_mt_runtime"]):
        said = process("-OO", "-m", *words, "--help").stdout  # without docstrings
        assert said.startswith("usage: resmlp-") and "None" not in said
    with pytest.raises(SystemExit) as end:
        main(["transalte"])
    assert end.value.code == 2
    assert "invalid choice: 'transalte' (choose from" in capsys.readouterr().err
