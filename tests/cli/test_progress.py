"""A bar on a terminal, plain lines in a log, and the time left by the recent speed."""

import io
import re

import pytest

from resmlp_mt import progress


class Stream(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.isatty = lambda: terminal


@pytest.fixture
def watched(monkeypatch):
    """Call with a terminal or not, the seconds that each step of work takes, and what was done
    before; gives all that was written."""

    def watch(terminal, seconds, done=0, columns=80, step=10):
        now, stream = [0.0], Stream(terminal)
        monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
        monkeypatch.setattr(progress.sys, "stderr", stream)
        monkeypatch.setenv("COLUMNS", str(columns))
        total = done + 10 * len(seconds)
        with progress.Progress("translate", total, "lines", done) as shown:
            for each in seconds:
                now[0] += each
                shown.add(step)
        return stream.getvalue()

    return watch


def test_a_bar_that_is_removed_at_the_end(watched):
    said = watched(True, [0.1, 0.1, 50, 50])
    assert "\n" not in said and said.endswith("\r\x1b[K")
    shown = re.findall(r"\r([^\x1b]+)\x1b\[K", said)
    assert shown == [
        "translate ##########----------  50%, 20 of 40 lines, 0:00 left",
        "translate ###############-----  75%, 30 of 40 lines, 0:50 left",
        "translate #################### 100%, 40 of 40 lines, 0:00 left",
    ]
    assert all(len(line) < 30 for line in re.findall(r"\r([^\x1b]+)", watched(True, [9], 0, 30)))


def test_plain_lines_in_a_log(watched):
    assert watched(False, [1] * 20) == ""
    lines = watched(False, [1] * 4000, done=10000).splitlines()
    assert len(lines) == 4000 // 30 and not any("\r" in line for line in lines)
    assert lines[0] == "translate: 10,300 of 50,000 lines, 1:06:10 left"


def test_the_time_left_follows_the_recent_speed(watched):
    """After a slow start, such as one that fetches data."""
    lines = watched(False, [1000] + [1] * 200).splitlines()
    assert lines[0].endswith(" lines, 55:33:20 left")
    assert lines[2] == "translate: 610 of 2,010 lines, 2:20 left"
    assert watched(False, [40], step=0) == "translate: 0 of 10 lines, ? left\n"
