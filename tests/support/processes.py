"""Programs in forked processes, which saves the imports: alone, in a shell, or two over gloo."""

import contextlib
import faulthandler
import json
import logging
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from multiprocessing.context import ForkProcess
from pathlib import Path
from unittest import mock

import pytest
import torch
from fairseq.logging import metrics

from resmlp_mt.cli.main import main


class Forked(ForkProcess):
    """A process that calls *function*; its output, after ten minutes its end, is in *log*."""

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

    def ends_well(self) -> None:
        assert self.wait() == 0, self._log.read_text()


def forked(program: str, arguments: Sequence, log: Path) -> Forked:
    """What ``fairseq-train`` or another program does. What it logs is in *log* too."""
    return Forked(lambda: run_program(program, arguments), log)


def run_program(name: str, arguments: Sequence) -> None:
    """In a fork, what the program or the module *name* does; ``python -`` runs standard input."""
    metrics.reset()
    root = logging.getLogger()
    root.handlers[:] = []
    root.manager.disable = logging.NOTSET
    sys.argv = [name, *map(str, arguments)]
    if name == "resmlp-mt":
        sys.exit(main())
    if name == "python" and [*arguments] == ["-"]:
        exec(sys.stdin.read(), {"__name__": "__main__"})
        return
    if name == "python":
        sys.exit(subprocess.call([sys.executable, *arguments]))
    if "." in name:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return
    form = "%(asctime)s | %(levelname)s | %(name)s | %(message)s"  # of fairseq's programs
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format=form, datefmt="%F %T")
    import_module(f"fairseq_cli.{name.removeprefix('fairseq-')}").cli_main()


# a script of the shell and of Python, as pip writes it: the path of a #! has no spaces
STUB = """#!/bin/sh
'''exec' "{python}" -IS "$0" "$@"
' '''
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({address!r})
    given = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(asked, [len(given).to_bytes(4, "big")], [0, 1, 2])
    asked.sendall(given)
    sys.exit(int(asked.recv(9) or 1))
"""
FAIRSEQ = ("train", "generate", "interactive", "preprocess")


def answer(asked: socket.socket) -> None:
    """Be the program that a stub asks for, until it ends or the stub is gone."""
    size, streams, *_ = socket.recv_fds(asked, 4, 3)
    given = asked.recv(int.from_bytes(size, "big"), socket.MSG_WAITALL)
    (name, *words), folder, environment = json.loads(given)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin, sys.stdout, sys.stderr = map(os.fdopen, range(3), "rww")
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    warnings.showwarning = lambda *what: print(warnings.formatwarning(*what[:4]), file=sys.stderr)
    gone = lambda: asked.recv(1) or os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
    threading.Thread(target=gone, daemon=True).start()
    status = 0
    try:
        run_program(Path(name).name, words)
    except BaseException as error:
        status = getattr(error, "code", 1) or 0
        if not isinstance(status, int):
            status = print(status, file=sys.stderr) or 1
        elif not isinstance(error, SystemExit):
            traceback.print_exc()
    sys.stdout.flush()
    asked.send(str(status).encode())
    os._exit(0)


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """A folder for PATH of programs that are forks of this process, started like any others."""
    if torch.cuda.is_available():  # which no fork can use
        yield Path(sys.executable).parent
        return
    folder = tmp_path_factory.mktemp("programs")
    address = str(folder / "socket")
    for name in ("resmlp-mt", "python", *(f"fairseq-{each}" for each in FAIRSEQ)):
        (folder / name).write_text(STUB.format(python=sys.executable, address=address))
        (folder / name).chmod(0o755)

    def serve():
        while True:
            asked, _ = server.accept()
            with asked:
                ForkProcess(target=answer, args=(asked,)).start()

    with socket.create_server(address, family=socket.AF_UNIX) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield folder


@pytest.fixture(scope="module")
def trained_here(programs):
    """``resmlp-mt train`` and ``run`` start fairseq-train out of *programs*."""
    name = "resmlp_mt.pipeline.train.command.program"
    with mock.patch(name, lambda program: str(programs / program)):
        yield


@contextlib.contextmanager
def together(words: Sequence, folder: Path) -> Iterator[list[Forked]]:
    """Two processes of fairseq-train, killed at the end; their logs are ``0.log``, ``1.log``."""
    folder.mkdir(parents=True)
    shared = ["--distributed-world-size", 2, "--distributed-no-spawn"]
    shared += ["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
    shared += ["--distributed-init-method", f"file://{folder}/store"]
    processes = []
    try:
        for rank in range(2):
            options = [*words, *shared, "--distributed-rank", rank]
            processes.append(forked("fairseq-train", options, folder / f"{rank}.log"))
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
