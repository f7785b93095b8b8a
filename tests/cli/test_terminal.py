"""Exit status and last line of a command, closed streams, progress in a terminal and in a log."""

import io
import os
import re
import signal
import sys
import threading

import pytest
from command import shell
from tqdm import std

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.files import whole_file
from resmlp_mt.progress import Progress


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
    """A thread handles none."""

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
    status = []
    thread = threading.Thread(target=lambda: status.append(run_main(lambda: None)))
    thread.start()
    thread.join()
    assert status == [0]


def test_closed_streams(monkeypatch, capsys):
    """As by ``>&-`` or ``2>&-`` in a shell."""

    def fail():
        raise PermissionError(13, "Permission denied", "name")

    assert run_main(fail, "score") == 1
    assert capsys.readouterr().err == "resmlp-mt score: error: name: Permission denied\n"
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert run_main(fail, "score") == 1
        assert "score: error: standard output is closed" in capsys.readouterr().err
        patch.undo()
        patch.setattr(sys, "stderr", None)
        assert run_main(fail) == 1
        sys.stderr.close()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "name, message",
    [
        ("train", ": the same command resumes it"),
        ("translate", ": --resume continues"),
        ("score", ""),
    ],
)
def test_a_stopped_command_says_whether_it_resumes(name, message, capsys):
    def main():
        raise KeyboardInterrupt

    assert run_main(main, name) == 130
    err = capsys.readouterr().err
    assert err.startswith(f"\nresmlp-mt {name}: stopped{message}")
    assert err.endswith("stopped\n") != bool(message)


@pytest.fixture
def watched(monkeypatch):
    """``watch(terminal, seconds per step, lines done before)``: the output of a progress bar."""

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


def test_a_terminal_shows_a_bar_and_removes_it(watched):
    output = watched(True, [0.1, 0.1, 50, 50])
    assert output.count("\n") == 1 and "\ra line of its own\n" in output
    assert output.endswith(" \r")
    assert re.findall(r"\r(translate [^\r]+?) *(?=\r|$)", output)[:3] == [
        "translate #####----- 20 of 40 lines, 00:00 left",
        "translate #######--- 30 of 40 lines, 00:20 left",
        "translate ########## 40 of 40 lines, 00:00 left",
    ]


def test_a_log_gets_plain_lines(watched):
    assert watched(False, [1] * 20) == "a line of its own\n"
    lines = watched(False, [1] * 4000, done=10000).splitlines()
    assert len(lines) == 4000 // 30 + 1 and lines[-1] == "a line of its own"
    assert lines[0] == "translate: 10,300 of 50,000 lines, 1:06:10 left"
    # after a slow start, such as one that fetches data
    assert re.search("lines, 0[23]:.. left", watched(False, [1000] + [1] * 400).splitlines()[9])
