"""Forked processes that work on chunks of text, with results in order.

Each process reads the text itself, works on every n-th chunk, and has a pipe of its own, so that
the end of one is always noticed. A worker of multiprocessing.Pool may be killed while it holds the
lock of the queue that all share, and the others then wait forever; in some versions of Python
ProcessPoolExecutor waits forever, too (cpython issue 94777), and its workers outlive a parent that
is killed.
"""

import gc
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle, islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from resmlp_mt_runtime.errors import UserError


def in_processes(count: int, work: Callable, items: Iterable) -> Iterator:
    """``map(work, items)`` by *count* processes, each of which iterates over all *items*: a
    sequence, or a generator that has not begun."""
    fork = multiprocessing.get_context("fork")
    processes: dict[Connection, BaseProcess] = {}
    try:
        for number in range(count):
            ours, theirs = fork.Pipe(duplex=False)
            arguments = (work, islice(items, number, None, count), theirs, [*processes, ours])
            process = fork.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            processes[ours] = process
            theirs.close()
        for pipe in cycle(processes):
            try:
                outcome = pipe.recv()
            except (EOFError, OSError):  # before or within a result
                message = "a worker process was killed (out of memory?): try fewer --workers"
                raise UserError(message) from None
            if outcome is None:
                return
            result, trace = outcome
            if trace:
                raise result from RuntimeError(trace)
            yield result
    finally:
        for pipe, process in processes.items():
            process.kill()
            process.join()
            pipe.close()


def _serve(work: Callable, items: Iterable, pipe: Connection, parents: list[Connection]) -> None:
    """In a process: send the results of *work*, each with the traceback of an error, then None."""
    gc.freeze()  # destructors of the parent's garbage may wait for threads that are not here
    for number in (signal.SIGINT, signal.SIGUSR1):  # the parent answers these
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in parents:  # inherited ends, with which the pipes would stay open without the parent
        other.close()
    try:
        for item in items:
            pipe.send((work(item), ""))
        pipe.send(None)
    except BrokenPipeError:  # the parent has ended
        pass
    except Exception as error:
        pipe.send((error, traceback.format_exc()))
