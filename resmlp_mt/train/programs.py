"""Run fairseq-train as a child: its output in a log, its errors in one line, no orphans."""

import contextlib
import ctypes
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional

import resmlp_mt
from resmlp_mt.errors import UserError
from resmlp_mt.files import read_own, write_json

USER_DIR = Path(resmlp_mt.__file__).parent
# variables that fairseq-train needs for a --precision
VARIABLES = {
    "tf32": {"RESMLP_MT_MATMUL_PRECISION": "high"},
    "bf16-products": {"RESMLP_MT_MATMUL_PRECISION": "medium"},
    "bf16": {"RESMLP_MT_AUTOCAST": "bfloat16"},
}
# --precision decides them all, whatever the shell has
OF_PRECISION = {name for variables in VARIABLES.values() for name in variables}
# by a signal that it had and this process had not
STOPPED = {s.value: s.name for s in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
_LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \|")
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def program(name: str) -> str:
    """A program that is installed with this Python.

    Raises:
        UserError: if it is not.
    """
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise UserError(f"{name} is not installed for {sys.executable}: install this package there")
    return found


def quoted(command: List[str], environment: Optional[Dict[str, str]] = None) -> str:
    """One line for a shell that sets the variables, too. ``$MASTER_ADDR`` is still one in it."""
    variables = [f"{name}={value}" for name, value in (environment or {}).items()]
    words = ["env", *variables, *command] if variables else command
    return " ".join('"$MASTER_ADDR"' if w == "$MASTER_ADDR" else shlex.quote(w) for w in words)


def run_command(
    name: str,
    command: List[str],
    log: Path,
    on_line: Callable[[str], object] = lambda line: None,
    environment: Optional[Dict[str, str]] = None,
) -> None:
    """Run a program and wait for it.

    The program is stopped, and waited for, when an exception leaves this process, as after Ctrl-C
    and SIGTERM. It is stopped on Linux when this process is killed, too.

    Args:
        name: what messages call it.
        command: its words.
        log: file that the command, for a shell, and its output are appended to.
        on_line: called with each line of output.
        environment: variables to set beside those of this process.

    Raises:
        UserError: if it fails, with the last line it printed and the name of the log.
    """
    tail: deque = deque(maxlen=40)
    with open(log, "a", encoding="utf-8", buffering=1) as file:
        print(quoted(command, environment), file=file)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_environment(environment or {}),
            process_group=0,  # Ctrl-C reaches this process alone, which passes it on
            preexec_fn=_begin,
        )

        def follow() -> None:
            for raw in process.stdout:
                line = raw.decode("utf-8", "replace").rstrip("\n")
                print(line, file=file)
                tail.append(line)
                on_line(line)

        with stopping(process, follow):
            follow()
            status = process.wait()
    if status:
        said = [line.strip() for line in tail if line.strip()]
        errors = [line for line in said if not _LOG_LINE.match(line)] or said or ["no output"]
        last = errors[-1].removeprefix(f"{name}: error: ")
        reason = f"killed by signal {-status}" if status < 0 else last
        if status - 128 in STOPPED:
            raise UserError(
                f"{name} was stopped by {STOPPED[status - 128]}: the same command resumes it"
            )
        raise UserError(f"{name} failed: {reason} (its whole output: {log})")


def _environment(more: Dict[str, str]) -> Dict[str, str]:
    # the child finds the same package that runs here
    path = [str(USER_DIR.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    inherited = {name: value for name, value in os.environ.items() if name not in OF_PRECISION}
    return {
        # glibc gives large blocks back to the kernel at every free. Keeping them saves a tenth of
        # a training step on a CPU
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
        **inherited,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "ignore",
        **more,
    }


def _begin() -> None:
    """Called in the child: what reaches a whole batch job is for the parent to pass on, and the
    kernel sends SIGTERM when the parent ends, even by kill -9."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    if _LIBC:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def stopping(
    process: subprocess.Popen, follow: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Ctrl-C, SIGTERM, SIGUSR1 or an error in the block stops *process*, which finishes its update
    and saves a checkpoint, and *follow* reads what it says. One more Ctrl-C kills it."""
    try:
        yield
    except BaseException as error:
        process.terminate()
        try:
            if not isinstance(error, Exception):
                follow()
            process.communicate()
        except BaseException:
            process.kill()
            process.communicate()
            raise
        raise


@contextlib.contextmanager
def cost_added_to(path: Path) -> Iterator[None]:
    """Add what the programs cost that end in the block to ``{"wall_minutes": ...,
    "cpu_minutes": ...}`` in a JSON file, also if the block is left by an error."""
    cost = {"wall_minutes": 0, "cpu_minutes": 0, **read_own(path, "wall_minutes")}
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        yield
    finally:
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        cost["wall_minutes"] += (time.monotonic() - start) / 60
        cost["cpu_minutes"] += cpu / 60
        write_json(path, cost)
