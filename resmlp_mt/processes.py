"""Work for several processes: results in order, few items in memory at a time.

A worker process ends when its parent is killed. Ctrl-C is left to the parent.
"""

import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Callable, Iterable, Iterator

from resmlp_mt.errors import UserError

_number = 0  # of this worker process
_error = None  # what its initializer raised
POLL = 0.5  # seconds between two looks at the parent


def usable_cores() -> int:
    """CPU cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worker_number() -> int:
    """Which worker this process is, from 0, to choose a GPU by. Elsewhere 0."""
    return _number


class Workers:
    """Processes that apply functions to items. A context manager, which ends them.

    Args:
        count: how many.
        initializer, arguments: called once in each, to load what its items need. The default does
            nothing, and can be pickled. What the initializer raises is raised by :meth:`map`, with
            ``"here"`` by the constructor.
        method: ``"fork"`` is quick, because a forked process has the modules of this one. With
            ``"spawn"`` the processes may use a GPU and the threads of PyTorch. With ``"here"``
            the work is done in this process.
    """

    def __init__(self, count: int, initializer: Callable = int, *arguments, method: str = "fork"):
        self.count = count
        self._pool = None
        if method == "here":
            initializer(*arguments)
            return
        # elsewhere than on Linux a forked process may crash in the libraries of the system
        context = multiprocessing.get_context(method if sys.platform == "linux" else "spawn")
        self._stop = context.RawValue("b", 0)
        # unpickled by _start itself: to import what it needs takes seconds, and logs
        load = pickle.dumps((initializer, arguments))
        level = logging.root.manager.disable
        self._pool = ProcessPoolExecutor(
            count,
            mp_context=context,
            initializer=_start,
            initargs=(os.getpid(), self._stop, context.Value("i", 0), level, load),
        )

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind, *_) -> None:
        if self._pool is not None:
            self._stop.value = kind is not None  # after an error nothing is waited for
            self._pool.shutdown(cancel_futures=True)

    def map(self, function: Callable, items: Iterable) -> Iterator:
        """Results in the order of *items*, which is read only a little ahead of them.

        Raises:
            UserError: if a process dies, as one does that the kernel kills when memory runs out;
                what *function* raises.
        """
        if self._pool is None:
            yield from map(function, items)
            return
        waiting: deque = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(_call, function, item))
                if len(waiting) > 2 * self.count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise UserError(
                "a worker process was ended from outside, perhaps because memory ran out: run the "
                "same command again with fewer processes"
            ) from None


def _start(parent: int, stop, numbers, level: int, load: bytes) -> None:
    global _number, _error
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to answer
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # not as in a parent that was forked
    threading.Thread(target=_end_with, args=[parent, stop], daemon=True).start()
    with numbers.get_lock():
        _number = numbers.value
        numbers.value += 1
    logging.disable(level)  # as in the parent
    try:
        initializer, arguments = pickle.loads(load)
        initializer(*arguments)
    except Exception as error:  # the pool itself would only say that it is broken
        _error = error


def _call(function: Callable, item):
    if _error is not None:
        raise _error
    return function(item)


def _end_with(parent: int, stop) -> None:
    """End this process when its parent has been killed, which no signal tells, or says stop."""
    while os.getppid() == parent and not stop.value:
        time.sleep(POLL)
    os._exit(1)
