"""The process pool: results in order, errors as in one process, nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from resmlp_mt.errors import UserError
from resmlp_mt.processes import Workers, worker_number

ROOT = Path(__file__).resolve().parents[2]
_base = 0


def set_base(value):
    global _base
    if value < 0:
        raise UserError(f"{value}: give a positive number")
    _base = value


def add(item):
    if item == "bad":
        raise UserError("bad: give a number")
    if item == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.01 * (item % 3))
    return _base + item, worker_number()


@pytest.mark.parametrize("method", ("fork", "spawn", "here"))
def test_results_come_in_order(method):
    read = []
    with Workers(2, set_base, 100, method=method) as workers:
        results = workers.map(add, (read.append(i) or i for i in range(40)))
        first = next(results)
        assert len(read) <= 6  # the items are not read far ahead
        found = [first, *results]
    assert [total for total, _ in found] == list(range(100, 140))
    assert {number for _, number in found} <= ({0} if method == "here" else {0, 1})


def test_what_a_worker_raises_is_raised():
    with pytest.raises(UserError, match="^bad: give a number$"), Workers(2, set_base, 0) as workers:
        list(workers.map(add, [1, 2, "bad", 3]))
    with pytest.raises(UserError, match="^-1: give"), Workers(2, set_base, -1) as workers:
        list(workers.map(add, [1]))


def test_a_worker_that_is_killed():
    with pytest.raises(UserError, match="was ended from outside"), Workers(2) as workers:
        list(workers.map(add, [1, "die", *range(20)]))


PARENT = """
import os, signal, sys, time
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.processes import Workers
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
def slow(_):
    print(os.getpid(), flush=True)
    time.sleep(600)
def work():
    with Workers(2, method="fork") as workers:
        list(workers.map(slow, range(2)))
sys.exit(run_main(work))
"""


@pytest.mark.parametrize("sent", (signal.SIGKILL, signal.SIGINT, signal.SIGTERM))
def test_no_worker_outlives_its_parent(sent):
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert all(parent.stdout.readline() for _ in range(2))
    parent.send_signal(sent)
    # the pipes end with the last process that holds them: the workers do too
    _, err = parent.communicate(timeout=60)
    assert "Traceback" not in err and err.count("stopped") == (sent != signal.SIGKILL), err
