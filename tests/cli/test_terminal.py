"""What a terminal or a log shows, and how a command ends when nobody reads it."""

import io
import os
import re
import signal
import sys
import threading
from pathlib import Path

import pytest
from command import shell
from tqdm import std

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.files import whole_file
from resmlp_mt.progress import Progress
from resmlp_mt.text.lines import read_text


def test_nobody_can_take_the_little_that_is_printed(tmp_path):
    """It stays in the buffer until the end."""
    (tmp_path / "text").write_text("a line of words\n")
    score = "resmlp-mt score --references text -i text"
    done = shell(f"{score} > /dev/full", tmp_path, PYTHONUNBUFFERED="")
    assert done.stderr == "resmlp-mt score: error: No space left on device\n"
    assert done.returncode == 1
    pipe = f"set +e; {score} | true; exit ${{PIPESTATUS[0]}}"
    done = shell(pipe, tmp_path, PYTHONUNBUFFERED="")
    assert (done.returncode, done.stderr) == (141, "")


def test_signals(tmp_path):
    """Nothing half-written is left. One that a shell ignores is ignored, and a thread has none."""

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
    found = []
    thread = threading.Thread(target=lambda: found.append(run_main(lambda: None)))
    thread.start()
    thread.join()
    assert found == [0]


def test_closed_streams_and_messages(monkeypatch, capsys):
    """A shell was told ``<&-`` or ``2>&-``."""

    def fail():
        raise PermissionError(13, "Permission denied", "name")

    assert run_main(fail, "score") == 1
    assert capsys.readouterr().err == "resmlp-mt score: error: name: Permission denied\n"
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", None)
        assert run_main(lambda: read_text(Path("-")), "score") == 1
        assert capsys.readouterr().err.startswith("resmlp-mt score: error: standard input is clos")
        patch.undo()
        patch.setattr(sys, "stderr", None)
        assert run_main(fail) == 1
        sys.stderr.close()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "name, said",
    [("train", ": the same command resumes it"), ("translate", ": with --resume"), ("score", "")],
)
def test_what_was_stopped_says_whether_it_resumes(name, said, capsys):
    def main():
        raise KeyboardInterrupt

    assert run_main(main, name) == 130
    err = capsys.readouterr().err
    assert err.startswith(f"\nresmlp-mt {name}: stopped{said}")
    assert err.endswith("stopped\n") != bool(said)


@pytest.fixture
def watched(monkeypatch):
    """Call with a terminal or not, the seconds of each step and what was done; gives the output."""

    def watch(terminal, seconds, done=0):
        now, stream = [0.0], io.StringIO()
        stream.isatty = lambda: terminal
        monkeypatch.setattr(std, "time", lambda: now[0])
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress("translate", done + 10 * len(seconds), "lines", done) as shown:
            for each in seconds:
                now[0] += each
                shown.update(10)
            shown.say("a line of its own")
        return stream.getvalue()

    return watch


def test_a_bar_that_is_removed_at_the_end(watched):
    said = watched(True, [0.1, 0.1, 50, 50])
    assert said.count("\n") == 1 and "\ra line of its own\n" in said and said.endswith(" \r")
    assert re.findall(r"\r(translate [^\r]+?) *(?=\r|$)", said)[:3] == [
        "translate ##########---------- 20 of 40 lines, 00:00 left",
        "translate ###############----- 30 of 40 lines, 00:20 left",
        "translate #################### 40 of 40 lines, 00:00 left",
    ]


def test_plain_lines_in_a_log(watched):
    assert watched(False, [1] * 20) == "a line of its own\n"
    lines = watched(False, [1] * 4000, done=10000).splitlines()
    assert len(lines) == 4000 // 30 + 1 and lines[-1] == "a line of its own"
    assert lines[0] == "translate: 10,300 of 50,000 lines, 1:06:10 left"
    # after a slow start, such as one that fetches data
    assert re.search("lines, 0[23]:.. left", watched(False, [1000] + [1] * 400).splitlines()[9])
