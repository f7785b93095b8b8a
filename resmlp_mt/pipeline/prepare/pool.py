"""Processes that work on chunks of text, with results in order."""

import contextlib
import gc
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator

from resmlp_mt.errors import UserError

LOOK = 1  # seconds between two looks whether all workers are alive
SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1}

_work: Callable  # in a worker: what it does


@contextlib.contextmanager
def workers(count: int, work: Callable) -> Iterator[Callable[[Iterable], Iterator]]:
    """*count* forked processes; gives what maps *work* over items, in their order."""
    # a worker that is stopped while it starts must not run the handlers of this process
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        started = multiprocessing.get_context("fork").Pool(count, _start, [work])
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with started as pool:
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
    gc.freeze()  # destructors of the parent's garbage may wait for threads that are not here
    for number in (signal.SIGINT, signal.SIGUSR1):  # the parent answers these
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _call(item):
    return _work(item)
