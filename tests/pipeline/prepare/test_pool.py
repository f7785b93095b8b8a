"""Workers: results in order, and no way to die unnoticed or to live on."""

import multiprocessing
import os
import select
import signal
import time

import pytest

from resmlp_mt.pipeline.prepare.pool import in_processes
from resmlp_mt_runtime.errors import UserError


@pytest.mark.parametrize("items", [0, 1, 60])
def test_results_are_in_order(items):
    def slow_at_first(item):
        time.sleep(0.2 if item == 0 else 0)
        return item

    assert list(in_processes(3, slow_at_first, range(items))) == list(range(items))
    assert not multiprocessing.active_children()


def die(item):
    if item == 5:
        os.kill(os.getpid(), signal.SIGKILL)


def million_bytes(item):
    return bytes(10**6)  # more than a pipe holds: the worker waits until they are read


@pytest.mark.parametrize("work", [die, million_bytes], ids=["works", "waits"])
def test_a_killed_worker_is_noticed(work):
    with pytest.raises(UserError, match="a worker process was killed"):
        for _ in in_processes(2, work, range(20)):
            time.sleep(0.1)
            if work is million_bytes:
                multiprocessing.active_children()[0].kill()
    assert not multiprocessing.active_children()


def test_an_error_keeps_its_type_and_says_where_it_was():
    with pytest.raises(ZeroDivisionError) as caught:
        list(in_processes(2, (1).__truediv__, [1, 0]))
    assert "in _serve" in str(caught.value.__cause__)
    assert not multiprocessing.active_children()


def test_no_worker_outlives_a_parent_that_is_killed():
    ended, held = os.pipe()  # the processes hold the other end

    def parent():
        for _ in in_processes(2, million_bytes, range(9)):
            time.sleep(60)  # the workers wait to send what is next

    process = multiprocessing.get_context("fork").Process(target=parent)
    process.start()
    os.close(held)
    time.sleep(0.2)
    process.kill()
    process.join()
    assert select.select([ended], [], [], 30)[0] and not os.read(ended, 1)
