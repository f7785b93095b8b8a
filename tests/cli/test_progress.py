"""A bar on a terminal, plain lines in a log, and the time left."""

import io
import re
import sys

import pytest
from tqdm import std

from resmlp_mt.progress import Progress


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
