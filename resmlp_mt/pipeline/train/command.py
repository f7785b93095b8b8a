"""The fairseq-train command: made from options, and run as a child, without orphans."""

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import resmlp_mt
from resmlp_mt.pipeline.train.recipe import Options, Recipe, command_line
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import read_own, write_json

USER_DIR = Path(resmlp_mt.__file__).parent
MAX_TOKENS = 4096  # per batch, unless each GPU's share is smaller

# bf16 is torch.autocast. fp16 keeps weights in 16 bits: --fp16 alone makes one flat copy of all
# weights, which Adagrad cannot work on.
PRECISIONS: dict[str, Options] = {"fp32": {}, "bf16": {}}
PRECISIONS["fp16"] = {"--fp16": [], "--fp16-no-flatten-grads": []}
STOPPED = {s.value: s.name for s in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
_LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \|")
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True)
class TrainingOptions:
    """What ``resmlp-mt train`` and ``resmlp-mt run`` train with."""

    recipe: Recipe
    arch: str
    max_update: int
    tokens: int  # per update, on all GPUs together
    max_tokens: int | None = None  # per batch; None: as before in this folder
    gpus: int | None = None  # None: all, or the CPU
    cpu: bool = False  # whatever GPUs there are
    precision: str = "fp32"
    seed: int = 1
    threads: int | None = None
    user_dir: Path | None = None  # code of the user's, imported beside ours
    fairseq_options: list[str] = field(default_factory=list)  # override the recipe


def share_tokens(tokens: int, gpus: int, max_tokens: int | None) -> tuple[int, int]:
    """``max_tokens`` and ``update_freq``: *tokens* is their product with the number of GPUs.

    With the same *max_tokens* every update sees the same batches, whatever the number of GPUs.
    None means 4,096, or the share of a GPU if that is less.
    """
    max_tokens = max_tokens or min(MAX_TOKENS, max(1, tokens // gpus))
    update_freq, rest = divmod(tokens, gpus * max_tokens)
    if rest:
        raise UserError(
            f"--tokens {tokens} must be a multiple of GPUs x --max-tokens ({gpus} x {max_tokens}): "
            "take another number of GPUs, or in a new folder other --tokens or --max-tokens"
        )
    return max_tokens, update_freq


def training_command(data: Path, options: Options, processes: int) -> list[str]:
    """``fairseq-train ...`` for one process, ``torchrun ... fairseq-train ...`` for more."""
    options = {"--user-dir": [str(USER_DIR)], **options}
    arguments = [program("fairseq-train"), str(data), *command_line(options)]
    arguments += ["--distributed-world-size", str(processes)]
    if processes == 1:
        return arguments
    launcher = [program("torchrun"), "--standalone"]  # which finds a free port
    launcher += ["--nproc_per_node", str(processes)]
    # python -m fairseq_cli.train would import what lies in the working directory
    return [*launcher, "--no-python", *arguments]


def program(name: str) -> str:
    """A program that is installed with this Python."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return shutil.which(name, path=os.pathsep.join(folders)) or name


def quote(command: list[str], environment: dict[str, str]) -> str:
    """One line for a shell that sets the variables and runs the command."""
    variables = [f"{name}={value}" for name, value in environment.items()]
    return shlex.join(["env", *variables, *command] if variables else command)


def run_command(
    name: str,
    command: list[str],
    log: Path,
    on_line: Callable[[str], object] = lambda line: None,
    environment: dict[str, str] | None = None,
) -> None:
    """Run a program to its end. *log* gets its command and output. If it fails, UserError gives its
    last line. It is stopped, and waited for, when an exception such as Ctrl-C ends this call, on
    Linux also when this process is killed."""
    tail: deque[str] = deque(maxlen=40)
    with open(log, "a", encoding="utf-8", buffering=1) as file:
        print(quote(command, environment or {}), file=file)
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
            for raw in process.stdout or ():
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
        if status - 128 in STOPPED:
            number = STOPPED[status - 128]
            raise UserError(f"{name} was stopped by {number}: the same command resumes it")
        lines = [line.strip() for line in tail if line.strip()]
        errors = [line for line in lines if not _LOG_LINE.match(line)] or lines or ["no output"]
        last = errors[-1].removeprefix(f"{name}: error: ")
        reason = f"killed by signal {-status}" if status < 0 else last
        raise UserError(f"{name} failed: {reason} (its whole output: {log})")


def _environment(more: dict[str, str]) -> dict[str, str]:
    # the child finds the same package that runs here
    path = [str(USER_DIR.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    # --precision decides it, whatever the shell has
    from resmlp_mt.loss import AUTOCAST  # which imports PyTorch

    inherited = {name: value for name, value in os.environ.items() if name != AUTOCAST}
    return {
        # glibc returns large blocks to the kernel at every free; keeping them saves a tenth of an
        # update on a CPU
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
        **inherited,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "ignore",
        **more,
    }


def _begin() -> None:
    """Called in the child: the parent passes on what reaches a whole batch job, and the kernel
    sends SIGTERM when the parent ends, even by kill -9."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    if _LIBC:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@contextlib.contextmanager
def cost_added_to(path: Path) -> Iterator[None]:
    """Add the ``wall_minutes`` and ``cpu_minutes`` of the programs that end in the block to a JSON
    file, also after an error."""
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
