"""Jobs for a model, in this process or in several, each with a copy of it on a device of its own.

What a model is, is the caller's: ``load(device)`` gives an object with ``about``, which anybody may
want to know before there are jobs, and ``work(job)``, which yields the answers to a job. All of it
goes from process to process, so it must be possible to pickle it.
"""

import signal
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Callable, Iterable, Iterator, List, Optional, Tuple, Union

import torch

from resmlp_mt.errors import UserError

Load = Callable[[torch.device], Any]


def open_shards(
    load: Load, count: int, cpu: bool, died: str, threads: Optional[int] = None
) -> Union["Here", "Shards"]:
    """
    Args:
        load: what to load, see above.
        count: processes; GPUs in turn where there are any.
        cpu: leave GPUs alone.
        died: as of :class:`Shards`.
        threads: of the CPU, of all processes together; default: PyTorch's.
    """
    gpus = 0 if cpu else torch.cuda.device_count()
    devices = [
        torch.device("cuda", n % gpus) if gpus else torch.device("cpu") for n in range(count)
    ]
    threads = threads or torch.get_num_threads()
    if count == 1:
        torch.set_num_threads(threads)
        return Here(load, devices[0])
    return Shards(load, devices, max(1, threads // count), died)


class Here:
    """One shard: this process.

    Attributes:
        about: the model's.
    """

    def __init__(self, load: Load, device: torch.device):
        self._model = load(device)
        self.about = self._model.about

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def answers(self, jobs: Iterable) -> Iterator[Tuple[int, Any]]:
        """``(number of the job, an answer)``, in any order."""
        for number, job in enumerate(jobs):
            for answer in self._model.work(job):
                yield number, answer


class Shards:
    """Several processes; each is given a job when it has done the one before.

    Args:
        load: what to load.
        devices: one a process.
        threads: CPU threads of each process.
        died: the error's text for a process that was ended from outside, with places for
            ``{shard}`` (its name), ``{how}`` and ``{status}``.

    Attributes:
        about: as of :class:`Here`.

    Raises:
        UserError: if one fails to start, or dies.
    """

    def __init__(self, load: Load, devices: List[torch.device], threads: int, died: str):
        # a forked process could use neither a GPU nor OpenMP's threads
        context = get_context("spawn")
        self._processes, self._connections = [], []
        self._devices, self._died = devices, died
        try:
            for device in devices:
                ours, theirs = context.Pipe()
                arguments = (theirs, load, device, threads)
                process = context.Process(target=_work, args=arguments, daemon=True)
                process.start()
                theirs.close()
                self._processes.append(process)
                self._connections.append(ours)
            for connection in self._connections:
                self.about = self._receive(connection)
        except BaseException:
            self._stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._stop()

    def answers(self, jobs: Iterable) -> Iterator[Tuple[int, Any]]:
        """``(number of the job, an answer)``, as soon as they are there.

        Raises:
            UserError: what a process raises, or if one is ended from outside.
        """
        waiting = iter(enumerate(jobs))
        busy = [connection for connection in self._connections if _give(connection, waiting)]
        while busy:
            for connection in wait(busy):
                answer = self._receive(connection)
                if answer is not None:
                    yield answer
                elif not _give(connection, waiting):
                    busy.remove(connection)

    def _receive(self, connection: Connection):
        try:
            said = connection.recv()
        except (EOFError, ConnectionError):
            shard = self._connections.index(connection)
            self._processes[shard].join()
            status = self._processes[shard].exitcode
            name = f"shard {shard + 1} of {len(self._devices)} ({self._devices[shard]})"
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            raise UserError(self._died.format(shard=name, how=how, status=status)) from None
        if isinstance(said, UserError):
            raise said
        return said

    def _stop(self) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()


def _give(connection: Connection, waiting: Iterator) -> bool:
    """Give a process its next job; False if there is none."""
    job = next(waiting, None)
    if job is not None:
        with suppress(ConnectionError):  # it has died; reading from it will say so
            connection.send(job)
    return job is not None


def _work(connection: Connection, load: Load, device: torch.device, threads: int) -> None:
    """A process: says what the model is about; then jobs in, their answers out, and None behind
    the last of each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    torch.set_num_threads(threads)
    with suppress(EOFError, ConnectionError):  # the parent has ended
        try:
            model = load(device)
            connection.send(model.about)
            while True:
                number, job = connection.recv()
                for answer in model.work(job):
                    connection.send((number, answer))
                connection.send(None)
        except UserError as error:
            connection.send(error)
        except OSError as error:  # such as a full disk
            connection.send(UserError(error.strerror or str(error)))
