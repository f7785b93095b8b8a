"""The fairseq-train command: made from options, and run as a child, without orphans; its log."""

import contextlib
import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

import resmlp_mt
from resmlp_mt.pipeline.train.recipe import Options, Recipe, command_line
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.terminal import Progress

USER_DIR = Path(resmlp_mt.__file__).parent
MAX_TOKENS = 4096  # per batch, unless each GPU's share is smaller

# bf16 is torch.autocast. fp16 keeps weights in 16 bits: --fp16 alone makes one flat copy of all
# weights, which Adagrad cannot work on.
PRECISIONS: dict[str, Options] = {"fp32": {}, "bf16": {}}
PRECISIONS["fp16"] = {"--fp16": [], "--fp16-no-flatten-grads": []}
STOPPED = {s.value: s.name for s in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
_LOG_LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \|")
_RAISED = re.compile(r"[\w.]+(Error|Exception)\b|fairseq-train: error: ")  # unindented
_RECORD = re.compile(r"\| (train_inner|valid) \| (\{.*\})$")
PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+) ")  # shared ones count once
_SHOWN = r"early stop since|no update is left|Loaded checkpoint"
_MESSAGE = re.compile(rf"\| WARNING \| [^|]* \| (.*)$|((?:{_SHOWN}).*)$")
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


def run_command(command: list[str], log: Path, on_line: Callable) -> None:
    """Run fairseq-train to its end. *log* gets the command and its output, a UserError its last
    line if it fails. It ends with this call, also by Ctrl-C, and on Linux if this process is
    killed."""
    tail: deque[str] = deque(maxlen=400)  # torchrun ends with ten lines for each process
    with open(log, "a", encoding="utf-8", errors="surrogateescape", buffering=1) as file:
        print(shlex.join(command), file=file)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_environment(),
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
        if sent := STOPPED.get(status - 128):
            raise UserError(f"fairseq-train was stopped by {sent}: the same command resumes it")
        own = takewhile(lambda line: "ChildFailedError" not in line, tail)  # torchrun's follow
        lines = [line for line in own if line.strip()]
        errors = [line for line in lines if not _LOG_LINE.match(line)] or lines or ["no output"]
        reason = errors[-1] if status > 0 else f"killed by signal {-status}"
        for line in errors:
            if _RAISED.match(line):  # more lines may follow it, or a signal to a busy thread
                reason = line
        reason = reason.strip().removeprefix("fairseq-train: error: ")
        raise UserError(f"fairseq-train failed: {reason} (its whole output: {log})")


def _environment() -> dict[str, str]:
    # the child finds the same package that runs here
    path = [str(USER_DIR.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        # glibc returns large blocks to the kernel at every free; keeping them saves a tenth of an
        # update on a CPU
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
        # seconds: torchrun kills after 30 what still validates and saves
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "3600",
        **os.environ,
        "RESMLP_MT_AUTOCAST": "",  # --precision decides it, whatever the shell has
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONUNBUFFERED": "1",
        "PYTHONWARNINGS": "ignore",
    }


def _begin() -> None:
    """Called in the child: the parent passes on what reaches a whole batch job, and the kernel
    sends SIGTERM when the parent ends, even by kill -9."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    if _LIBC:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def parse_record(line: str) -> tuple[str, dict[str, float]]:
    """The kind (``train_inner`` or ``valid``) and the values of a line of ``--log-format json``;
    empty if it is none, or two that processes wrote into each other."""
    if not (match := _RECORD.search(line)):
        return "", {}
    try:
        record = json.loads(match[2])
    except ValueError:
        return "", {}
    values = {}
    for name, value in record.items():
        with contextlib.suppress(TypeError, ValueError):  # not a number
            values[name] = float(value)
    if "valid_loss" in values:
        # cross_entropy without label smoothing logs the nll only once, as the loss
        values.setdefault("valid_nll_loss", values["valid_loss"])
    return match[1], values


class TrainingProgress(Progress):
    """Counts the updates in a log. The number of parameters, validations, warnings, a resume and an
    early end get lines."""

    def __init__(self, updates: int):
        super().__init__("    train", updates, "updates")
        self.messages: set[str] = set()

    def show(self, line: str) -> None:
        """Take a line of the log."""
        if message := _MESSAGE.search(line):
            self._say_once(f"warning: {message[1]}" if message[1] else message[2])
        if parameters := PARAMETERS.search(line):
            self._say_once(f"model: {parameters[1]} parameters")
        kind, values = parse_record(line)
        with contextlib.suppress(KeyError):  # an incomplete record
            if kind == "train_inner":
                self.note = f", epoch {values['epoch']:.0f}, loss {values['loss']:.2f}"
                self._advance(int(values["num_updates"]))
            elif kind == "valid":
                update = int(values["valid_num_updates"])
                bleu = f", BLEU {values['valid_bleu']:.1f}" if "valid_bleu" in values else ""
                text = f"    epoch {values['epoch']:3.0f}, update {update:6}: validation nll "
                text += f"{values['valid_nll_loss']:.3f} bits per token{bleu}"
                self._advance(update)
                self.say(text)

    def _say_once(self, message: str) -> None:
        if message not in self.messages:
            self.messages.add(message)
            self.say(f"    {message}")

    def _advance(self, update: int) -> None:
        if not self.n:  # the first record, perhaps of a resumed training: start the clock
            self.start(update)
        else:
            self.update(update - self.n)
