"""Processes that work on chunks of text, with results in order."""

import contextlib
import multiprocessing
import signal
from typing import Callable, Iterable, Iterator

from resmlp_mt.errors import UserError

LOOK = 1  # seconds between two looks whether all workers are alive

_work: Callable  # in a worker: what it does


@contextlib.contextmanager
def workers(count: int, work: Callable) -> Iterator[Callable[[Iterable], Iterator]]:
    """*count* forked processes; gives what maps *work* over items, in their order."""
    with multiprocessing.get_context("fork").Pool(count, _start, [work]) as pool:
        alive = {process.pid for process in multiprocessing.active_children()}

        def results(items: Iterable) -> Iterator:
            found = pool.imap(_call, items)
            while True:
                try:
                    yield found.next(LOOK)
                except multiprocessing.TimeoutError:
                    # a pool replaces a worker that was killed, and waits forever for its result
                    if not alive <= {process.pid for process in multiprocessing.active_children()}:
                        raise UserError(
                            "a worker process was killed (out of memory?): try fewer --workers"
                        ) from None
                except StopIteration:
                    return

        yield results


def _start(work: Callable) -> None:
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent answers Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _call(item):
    return _work(item)
