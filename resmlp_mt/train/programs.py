"""Run fairseq's command-line programs: output to a log, progress shown, one-line errors."""

import os
import re
import resource
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Callable, List, Optional

from fairseq.models import ARCH_MODEL_REGISTRY

import resmlp_mt
from resmlp_mt.errors import UserError

USER_DIR = Path(resmlp_mt.__file__).parent
_LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \|")


def architectures() -> set:
    """Names that ``fairseq-train --arch`` takes, ours among them."""
    return set(ARCH_MODEL_REGISTRY)


def run_program(
    name: str,
    arguments: List[str],
    log: Path,
    on_line: Optional[Callable[[str], None]] = None,
    threads: Optional[int] = None,
    matmul_precision: str = "highest",
) -> dict:
    """Run ``fairseq-NAME`` with this plugin and wait for it.

    Args:
        name: ``train``, ``preprocess``, ``generate`` ...
        arguments: its command line, without ``--user-dir``.
        log: file that its output is appended to.
        on_line: called with each line of output.
        threads: CPU threads; default: what PyTorch takes.
        matmul_precision: see :func:`resmlp_mt.compat.matmul_precision.set_matmul_precision`.

    Returns:
        its cost: ``{"wall_minutes": ..., "cpu_minutes": ...}``.

    Raises:
        UserError: if it fails, with the last line it printed and the name of the log.
    """
    command = [sys.executable, "-u", "-m", f"fairseq_cli.{name}", *map(str, arguments)]
    if name not in ("preprocess", "score"):
        command += ["--user-dir", str(USER_DIR)]
    environment = dict(os.environ, PYTHONPATH=_python_path(), PYTHONWARNINGS="ignore")
    # glibc gives large blocks back to the kernel at every free; keeping them saves a tenth of a
    # training step on a CPU
    environment.setdefault("MALLOC_MMAP_MAX_", "0")
    environment.setdefault("MALLOC_TRIM_THRESHOLD_", str(1 << 34))
    environment["RESMLP_MT_MATMUL_PRECISION"] = matmul_precision
    if threads:
        environment["OMP_NUM_THREADS"] = str(threads)
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    tail: deque = deque(maxlen=40)
    with open(log, "a", encoding="utf-8") as file:
        file.write(" ".join(command) + "\n")
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        )
        try:
            for raw in process.stdout:
                line = raw.decode("utf-8", "replace").rstrip("\n")
                file.write(line + "\n")
                file.flush()
                tail.append(line)
                if on_line is not None:
                    on_line(line)
            status = process.wait()
        except BaseException:
            # Ctrl-C has reached the child too; wait, so that it is not writing when we are gone
            process.terminate()
            process.wait()
            raise
    if status:
        said = [line for line in tail if line.strip() and not _LOG_LINE.match(line)]
        last = said[-1] if said else (tail[-1] if tail else "no output")
        reason = f"killed by signal {-status}" if status < 0 else last.strip()
        raise UserError(f"fairseq-{name} failed: {reason} (its whole output: {log})")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_minutes": (time.monotonic() - start) / 60, "cpu_minutes": cpu / 60}


def _python_path() -> str:
    """The path on which the child finds the same package that runs here."""
    here = str(USER_DIR.parent)
    inherited = os.environ.get("PYTHONPATH")
    return os.pathsep.join([here, inherited]) if inherited else here
