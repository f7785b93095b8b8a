"""A corpus in chunks through several processes, in order, with few chunks in memory at a time."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Callable, Iterable, Iterator, List, Tuple

from resmlp_mt.errors import UserError

CHUNK_LINES = 8192
CHUNK_BYTES = 4 << 20


def usable_cores() -> int:
    """CPU cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def chunks(pairs: Iterable[Tuple[bytes, bytes]]) -> Iterator[Tuple[List[bytes], List[bytes]]]:
    """Cut a corpus into lists of lines of both sides, limited in lines and in bytes."""
    sources: List[bytes] = []
    targets: List[bytes] = []
    size = 0
    for source, target in pairs:
        sources.append(source)
        targets.append(target)
        size += len(source) + len(target)
        if len(sources) == CHUNK_LINES or size >= CHUNK_BYTES:
            yield sources, targets
            sources, targets, size = [], [], 0
    if sources:
        yield sources, targets


class Workers:
    """Processes that apply functions to chunks.

    Args:
        count: how many.
        initializer, arguments: called once in each, to load what all its chunks need.
    """

    def __init__(self, count: int, initializer: Callable, *arguments):
        self.count = count
        # a forked process has this one's modules already; importing them takes seconds
        method = "fork" if sys.platform == "linux" else None
        self._pool = ProcessPoolExecutor(
            count,
            mp_context=multiprocessing.get_context(method),
            initializer=_start,
            initargs=(os.getpid(), initializer, arguments),
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._pool.shutdown(cancel_futures=True)

    def map(self, function: Callable, items: Iterable) -> Iterator:
        """Results in the order of *items*, which is read only a little ahead of them.

        Raises:
            UserError: if a process dies, as one does that the kernel ends for want of memory.
        """
        waiting: deque = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(function, item))
                if len(waiting) > 2 * self.count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool:
            raise UserError(
                "a worker process was ended from outside, perhaps for want of memory: run the same "
                "command again with fewer --workers"
            ) from None


def _start(parent: int, initializer: Callable, arguments: tuple) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    threading.Thread(target=_end_with, args=[parent], daemon=True).start()
    initializer(*arguments)


def _end_with(parent: int) -> None:
    """End this process when its parent has been killed; it would wait for work for ever."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)
