"""fairseq's programs in forked processes, which saves the imports: alone, or two over gloo."""

import contextlib
import faulthandler
import logging
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from multiprocessing.context import ForkProcess
from pathlib import Path

from fairseq import checkpoint_utils
from fairseq.logging import metrics


class Forked(ForkProcess):
    """A process that calls *function*, with its output in *log*. An exception is its failure; after
    ten minutes the process ends with its traceback in the log, so that no test waits forever."""

    def __init__(self, function: Callable[[], None], log: Path):
        super().__init__()
        self._function, self._log = function, log
        self.start()

    def run(self) -> None:
        output = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1)
        faulthandler.register(signal.SIGALRM, file=sys.stderr, chain=True)
        signal.alarm(600)
        self._function()

    def until(self, come: Callable[[str], bool]) -> None:
        """Wait for something in its log."""
        while not (self._log.exists() and come(self._log.read_text())):
            assert self.exitcode is None, f"ended:\n{self._log.read_text()}"
            time.sleep(0.005)

    def wait(self) -> int:
        """Its exit status."""
        self.join(900)  # PyTorch gives up on a silent peer after 1,800
        assert self.exitcode is not None, f"does not end:\n{self._log.read_text()}"
        return self.exitcode


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


def wait_for_update(process: Forked, update: int) -> None:
    """Until fairseq-train has logged that it made this update or a later one."""
    logged = r'"num_updates": "(\d+)"'
    process.until(lambda text: update <= max(map(int, re.findall(logged, text)), default=0))


@contextlib.contextmanager
def together(program: str, words: Sequence, folder: Path) -> Iterator[list[Forked]]:
    """Two processes of a program by rank, killed at the end; logs are ``0.log`` and ``1.log``."""
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
            processes.append(forked(program, options, folder / f"{rank}.log"))
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
