"""fairseq's programs in processes of their own: as installed, or forked, which saves the imports.

Both kinds have ``poll``, ``wait`` and ``kill`` as of ``subprocess.Popen``.
"""

import logging
import os
import signal
import subprocess
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Callable, Optional, Sequence

from fairseq import checkpoint_utils
from fairseq.logging import metrics


def installed(program: str, arguments: Sequence, log: Path) -> subprocess.Popen:
    """A program that is installed beside Python, with one thread and its output in *log*."""
    command = [str(Path(sys.executable).with_name(program)), *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    with open(log, "wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment)


class Forked:
    """
    Args:
        function: what the process does; an exception is its failure.
        log: file for its standard output and error.

    Attributes:
        pid: its number.
    """

    def __init__(self, function: Callable[[], None], log: Path):
        self._status: Optional[int] = None
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(output, 1)
                os.dup2(output, 2)
                sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1)
                function()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(status)  # nothing of the parent's (such as pytest) is run at the end

    def poll(self) -> Optional[int]:
        """Its exit status, ``-N`` after signal N, or None while it runs."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def wait(self, timeout: float) -> int:
        """Wait for its end.

        Raises:
            subprocess.TimeoutExpired: if that takes longer than so many seconds.
        """
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(0.005)
        return self._status

    def kill(self) -> None:
        """SIGKILL."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def forked(program: str, arguments: Sequence, log: Path) -> Forked:
    """What ``fairseq-train`` or another program of fairseq's does; its log is in *log*, too."""
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
