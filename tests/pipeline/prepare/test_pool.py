"""Workers: results in order, little read ahead, and no way to die unnoticed or to live on."""

import multiprocessing
import os
import select
import signal
import time

import pytest

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.prepare import pool
from resmlp_mt.pipeline.prepare.pool import workers


def test_results_are_in_order_and_few_items_are_read_ahead():
    def slow_at_first(item):
        time.sleep(0.2 if item == 0 else 0)
        return item

    def items():
        for item in range(60):
            assert item - len(results) <= (pool.AHEAD + 1) * 3
            yield item

    results = []
    with workers(3, slow_at_first) as run:
        results.extend(run(range(0)))
        for result in run(items()):
            results.append(result)
    assert results == list(range(60))


def die(item):
    if item == 5:
        os.kill(os.getpid(), signal.SIGKILL)


def kill_one():
    yield from range(5)
    multiprocessing.active_children()[0].kill()
    yield from range(6, 99)


@pytest.mark.parametrize("work, items", [(die, range(20)), (abs, kill_one())], ids=["busy", "idle"])
def test_a_killed_worker_is_noticed(work, items):
    with pytest.raises(UserError, match="a worker process was killed"), workers(2, work) as run:
        list(run(items))
    assert not multiprocessing.active_children()


def test_an_error_keeps_its_type_and_says_where_it_was():
    with pytest.raises(ZeroDivisionError) as caught, workers(2, (1).__truediv__) as run:
        list(run([1, 0]))
    assert "in _serve" in str(caught.value.__cause__)


def test_no_worker_outlives_a_parent_that_is_killed():
    ended, held = os.pipe()  # the processes hold the other end

    def parent():
        with workers(2, time.sleep) as run:
            list(run([0.01, 0.5, 0.5]))
            time.sleep(60)

    process = multiprocessing.get_context("fork").Process(target=parent)
    process.start()
    os.close(held)
    time.sleep(0.2)
    process.kill()
    process.join()
    assert select.select([ended], [], [], 30)[0] and not os.read(ended, 1)


def test_a_worker_that_is_stopped_while_it_starts_runs_no_handler_of_ours(tmp_path, monkeypatch):
    serve = pool._serve

    def serve_late(*arguments):
        time.sleep(0.2)
        serve(*arguments)

    monkeypatch.setattr(pool, "_serve", serve_late)
    mark = tmp_path / "handled"
    before = signal.signal(signal.SIGTERM, lambda *_: mark.touch())
    try:
        with workers(2, len):
            pass
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not mark.exists()
