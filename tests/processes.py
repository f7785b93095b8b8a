"""fairseq's programs in processes of their own, alone or together over gloo: as installed, or
forked, which saves the imports.

Both kinds have ``poll``, ``wait`` and ``kill`` as of ``subprocess.Popen``.
"""

import contextlib
import logging
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Callable, Iterator, List, Sequence, Union

from fairseq import checkpoint_utils
from fairseq.logging import metrics
from tqdm import tqdm

LONG = 900.0  # seconds; PyTorch gives up on a silent peer after 1,800


def installed(program: str, arguments: Sequence, log: Path) -> subprocess.Popen:
    """A program that is installed beside Python, with one thread and its output in *log*."""
    command = [str(Path(sys.executable).with_name(program)), *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    with open(log, "wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)


class Forked:
    """A process that calls *function*, with its output in *log*. An exception is its failure."""

    def __init__(self, function: Callable[[], None], log: Path):
        def run() -> None:
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1)
            # killed while it draws a bar, it would keep the lock that processes share
            tqdm.set_lock(threading.RLock())
            function()

        self._process = multiprocessing.get_context("fork").Process(target=run)
        self._process.start()
        self.pid, self.kill = self._process.pid, self._process.kill
        self.terminate = self._process.terminate
        self.poll = lambda: self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Its exit status. Like that of ``Popen``, it raises ``TimeoutExpired``."""
        self._process.join(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
        return self.poll()


Process = Union[subprocess.Popen, Forked]


def forked(program: str, arguments: Sequence, log: Path) -> Forked:
    """What ``fairseq-train`` or another program of fairseq does. What it logs is in *log* too."""
    module = import_module("fairseq_cli." + program.removeprefix("fairseq-"))

    def run() -> None:
        # what a fresh process would not have
        metrics.reset()
        checkpoint_utils.save_checkpoint.__dict__.clear()
        root = logging.getLogger()
        root.handlers[:] = [logging.StreamHandler(sys.stdout)]
        root.setLevel(logging.INFO)
        sys.argv = [program, *map(str, arguments)]
        module.cli_main()

    return Forked(run, log)


@contextlib.contextmanager
def together(run: Callable, program: str, words: Sequence, folder: Path) -> Iterator[List[Process]]:
    """Two processes of a program, each started by hand with its rank, by :func:`installed` or
    :func:`forked`. Their logs are ``0.log`` and ``1.log`` in *folder*. Those that have not ended
    are killed at the end."""
    folder.mkdir(parents=True)
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port = found.getsockname()[1]
    shared = ["--distributed-world-size", 2, "--distributed-no-spawn"]
    shared += ["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
    shared += ["--distributed-init-method", f"tcp://localhost:{port}"]
    processes = []
    try:
        for rank in range(2):
            options = [*words, *shared, "--distributed-rank", rank]
            processes.append(run(program, options, folder / f"{rank}.log"))
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait(timeout=60)


def all_well(processes: Sequence[Process]) -> List[str]:
    """Wait for them. Gives a line for each that fails."""
    statuses = [process.wait(timeout=LONG) for process in processes]
    return [f"process {n} ended with status {s}" for n, s in enumerate(statuses) if s]
