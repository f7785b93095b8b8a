"""Exit status and last line of a command, closed streams, progress in a terminal and in a log."""

import io
import os
import re
import signal
import sys

import pytest
import torch
from command import refused, shell

from resmlp_mt.cli.main import run_main
from resmlp_mt.pipeline.train.recipe import FOLDER
from resmlp_mt_runtime.files import whole_file
from resmlp_mt_runtime.terminal import Progress


def test_a_full_disk_or_a_closed_pipe_under_buffered_output(tmp_path):
    (tmp_path / "text").write_text("a line of words\n")
    score = "resmlp-mt score --references text -i text"
    done = shell(f"{score} > /dev/full", tmp_path, PYTHONUNBUFFERED="")
    assert done.stderr == "resmlp-mt score: error: No space left on device\n"
    assert done.returncode == 1
    pipe = f"set +e; {score} | true; exit ${{PIPESTATUS[0]}}"
    done = shell(pipe, tmp_path, PYTHONUNBUFFERED="")
    assert (done.returncode, done.stderr) == (141, "")


def test_a_signal_removes_partial_files_unless_it_is_ignored(tmp_path):
    def write():
        with whole_file(tmp_path / "file") as temporary:
            temporary.touch()
            os.kill(os.getpid(), signal.SIGTERM)

    assert run_main(write) == 143 and not list(tmp_path.iterdir())
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert run_main(write) == 0 and list(tmp_path.iterdir())
    finally:
        signal.signal(signal.SIGTERM, before)


EVIL = "x\nresmlp-mt, error, run this\r\x1b]0;title\x07\x1b[2J\x9b1m\u202e y"
SHOWN = r"x resmlp-mt, error, run this \x1b]0;title\x07\x1b[2J\x9b1m\u202e y"


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


def test_closed_streams(tmp_path):
    """As by ``>&-`` in a shell: one line, which goes nowhere else where there is no stderr."""
    (tmp_path / "text").write_text("a line of words\n")
    for more, status, out, err in (
        ("-i text >&-", 1, "", "standard output is closed: redirect it"),
        ("<&-", 1, "", "standard input is closed: give a file, or pipe the text in"),
        ("-i gone 2>&-", 1, "", ""),
    ):
        done = shell(f"resmlp-mt score --references text {more}", tmp_path)
        assert (done.returncode, done.stdout) == (status, out)
        assert done.stderr == (f"resmlp-mt score: error: {err}\n" if err else "")


def test_a_stopped_command_says_whether_it_resumes(capsys):
    def main():
        raise KeyboardInterrupt

    for name, more in (("train", ": the same command resumes it\n"), ("score", "\n")):
        assert run_main(main, name) == 130
        assert capsys.readouterr().err == f"\nresmlp-mt {name}: stopped{more}"


@pytest.fixture
def watched(monkeypatch):
    """``watch(terminal, seconds per step)``: the output of a progress bar."""

    def watch(terminal, seconds):
        now, stream = [0.0], io.StringIO()
        stream.isatty = lambda: terminal
        monkeypatch.setattr("time.monotonic", lambda: now[0])
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress("translate", 10 * len(seconds), "lines") as shown:
            for each in seconds:
                now[0] += each
                shown.update(10)
            shown.say("a line of its own")
        return stream.getvalue()

    return watch


def test_a_terminal_shows_a_bar_and_removes_it(watched):
    output = watched(True, [0.1, 0.1, 50, 50])
    assert output.count("\n") == 1 and "\ra line of its own\n" in output
    assert output.endswith(" \r")
    assert re.findall(r"\r(translate [^\r]+?) *(?=\r|$)", output)[:3] == [
        "translate #####----- 20 of 40 lines, 0:00:00 left",
        "translate #######--- 30 of 40 lines, 0:00:17 left",
        "translate ########## 40 of 40 lines, 0:00:00 left",
    ]


def test_a_log_gets_plain_lines(watched):
    assert watched(False, [1] * 20) == "a line of its own\n"
    lines = watched(False, [1] * 4000).splitlines()
    assert len(lines) == 4000 // 30 + 1 and lines[-1] == "a line of its own"
    assert lines[0] == "translate: 300 of 40,000 lines, 1:06:10 left"
