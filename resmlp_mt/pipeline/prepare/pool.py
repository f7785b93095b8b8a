"""Processes that work on chunks of text, with results in order.

Each worker has a pipe of its own. A worker of multiprocessing.Pool may be killed while it holds
the lock of the queue that all share, and the others then wait forever; the workers of
ProcessPoolExecutor outlive a parent that is killed.
"""

import contextlib
import gc
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from resmlp_mt.errors import UserError

AHEAD = 4  # results per worker that may wait for an earlier one
SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGUSR1}


@contextlib.contextmanager
def workers(count: int, work: Callable) -> Iterator[Callable[[Iterable], Iterator]]:
    """*count* forked processes; yields a function that maps *work* over items, in their order."""
    fork = multiprocessing.get_context("fork")
    processes: dict[Connection, BaseProcess] = {}
    # a worker that is stopped while it starts must not run the handlers of this process
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        for _ in range(count):
            ours, theirs = fork.Pipe()
            arguments = (work, theirs, [*processes, ours])
            process = fork.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            processes[ours] = process
            theirs.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield partial(_map, list(processes))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for pipe, process in processes.items():
            process.terminate()
            process.join()
            pipe.close()


def _map(pipes: list[Connection], items: Iterable) -> Iterator:
    tasks, idle = enumerate(items), set(pipes)
    results: dict[int, tuple] = {}
    due = 0  # number of the next result in order
    while True:
        while idle and len(results) < AHEAD * len(pipes) and (task := next(tasks, None)):
            _alive(idle.pop().send, task)
        if due in results:
            result, trace = results.pop(due)
            if trace:
                raise result from RuntimeError(trace)
            yield result
            due += 1
        elif busy := set(pipes) - idle:
            for pipe in busy.intersection(wait(busy)):
                number, *outcome = _alive(pipe.recv)
                results[number] = tuple(outcome)
                idle.add(pipe)
        else:
            return


def _alive(call: Callable, *arguments):
    """The result of a call of a pipe, which breaks if its worker has gone."""
    try:
        return call(*arguments)
    except (EOFError, OSError):
        message = "a worker process was killed (out of memory?): try fewer --workers"
        raise UserError(message) from None


def _serve(work: Callable, pipe: Connection, parents: list[Connection]) -> None:
    """In a worker: the results of *work* for the items that come through the pipe."""
    gc.freeze()  # destructors of the parent's garbage may wait for threads that are not here
    for number in (signal.SIGINT, signal.SIGUSR1):  # the parent answers these
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    for other in parents:  # inherited ends, with which the pipes would stay open without the parent
        other.close()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            number, item = pipe.recv()
            try:
                result, trace = work(item), ""
            except Exception as error:
                result, trace = error, traceback.format_exc()
            pipe.send((number, result, trace))
