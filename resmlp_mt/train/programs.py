"""Run fairseq-train as a child: its output in a log, its errors in one line, no orphans."""

import contextlib
import ctypes
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Optional

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_own, write_json
from resmlp_mt.train.command import USER_DIR, VARIABLES, quoted

# --precision decides these, whatever the shell has
OF_PRECISION = {name for variables in VARIABLES.values() for name in variables}
# by a signal that it had and this process had not
STOPPED = {s.value: s.name for s in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
_LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \|")
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def run_command(
    name: str,
    command: List[str],
    log: Path,
    on_line: Callable[[str], object] = lambda line: None,
    environment: Optional[Dict[str, str]] = None,
) -> None:
    """Run a program and wait for it; an error is the last line it printed, *name* before it.

    The command, for a shell, and its output are appended to *log*. It is stopped, and waited for,
    when an exception ends this one, as after Ctrl-C; on Linux also when this process is killed.
    """
    tail: deque = deque(maxlen=40)
    with open(log, "a", encoding="utf-8", buffering=1) as file:
        print(quoted(command, environment or {}), file=file)
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

        try:
            follow()
            status = process.wait()
        except BaseException as error:
            process.terminate()  # it finishes its update and saves a checkpoint
            try:
                if not isinstance(error, Exception):
                    follow()
                process.communicate()
            except BaseException:  # one more Ctrl-C
                process.kill()
                process.communicate()
                raise
            raise
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
        # glibc gives large blocks back to the kernel at every free; keeping them saves a tenth of
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
def cost_added_to(path: Path) -> Iterator[None]:
    """Add the cost of the programs that end in the block to the ``wall_minutes`` and
    ``cpu_minutes`` of a JSON file, even after an error."""
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
