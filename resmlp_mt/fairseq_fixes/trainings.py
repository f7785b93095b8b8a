"""fairseq-train: resumes exactly, keeps whole checkpoints, says in one line why it diverged, stops
on a signal, stays finished once it has finished."""

import logging
import math
import os
import shutil
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data.iterators import EpochBatchIterator, GroupedIterator
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.nan_detector import NanDetector
from fairseq.trainer import Trainer
from fairseq_cli import train as imported
from torch.utils.data._utils import signal_handling

from resmlp_mt.checkpoints.checking import check_finite
from resmlp_mt.checkpoints.files import write_checkpoint, writing
from resmlp_mt.fairseq_fixes.messages import naming
from resmlp_mt.patching import replace
from resmlp_mt_runtime.errors import UserError

logger = logging.getLogger(__name__)
# python -m fairseq_cli.train and python fairseq_cli/train.py run a copy of that module
run = sys.modules["__main__"]
is_copy = os.path.realpath(getattr(run, "__file__", "")) == os.path.realpath(imported.__file__)
program = run if is_copy else imported

# ---- resuming -------------------------------------------------------------------------------


@replace(Trainer, "load_checkpoint")
def load_checkpoint(original, self, filename, reset_optimizer=False, *args, **kwargs):
    """A training run resumes exactly, or is refused.

    fairseq counts updates from 0 if a file has no optimizer state or is not there, accepts one that
    is NaN, resumes elsewhere with another number of processes, forgets ``--patience``, and counts
    on from another run of the process. It can go when the original passes
    ``test_the_optimizer_has_nan``, ``test_another_number_of_processes``, ``test_counts_from_0``
    and ``test_a_second_training_of_a_process_counts_anew``."""
    for function in (program.should_stop_early, checkpoint_utils.save_checkpoint):
        vars(function).clear()  # what an earlier training of this process has counted
    asked = {self.cfg.checkpoint.restore_file, self.cfg.checkpoint.continue_once}
    if filename in asked - {"checkpoint_last.pt"} and not PathManager.exists(filename):
        raise UserError(f"{filename}: there is no such checkpoint")
    with naming(filename, "cannot be resumed from"):
        try:
            extra_state = original(self, filename, reset_optimizer, *args, **kwargs)
        except KeyError as error:
            if error.args == ("best",):  # of --lr-scheduler fixed, the default, which has none
                wrong = f"{filename} was trained with another --lr-scheduler"
                raise UserError(f"{wrong}: add --reset-lr-scheduler") from None
            if error.args != ("model",) or not self.cfg.ema.store_ema:
                raise
            raise UserError(f"--store-ema: {filename} has no such average: leave it out") from None
        if extra_state is None:
            return None
        if not reset_optimizer:
            if self.get_num_updates() != self._optim_history[-1]["num_updates"]:
                wrong = f"{filename} has no optimizer state to resume from"
                raise UserError(f"{wrong}: --finetune-from-model loads only its weights")
            states = getattr(self.optimizer.optimizer, "state", {})  # a composite one has none
            for number, values in enumerate(states.values()):
                named = {f"optimizer state {number}.{name}": v for name, v in values.items()}
                check_finite(named, filename)
        # reset the count where fairseq resets its best score, or when resuming from another folder
        another = Path(filename).resolve().parent != Path(self.cfg.checkpoint.save_dir).resolve()
        anew = reset_optimizer or kwargs.get("reset_meters") or another
        if "patience" in extra_state and not anew:
            count = extra_state["patience"]
            numbers = {"best": float(count["best"]), "num_runs": int(count["num_runs"])}
            vars(program.should_stop_early).update(numbers)
    return extra_state


@replace(distributed_utils, "_broadcast_object_slow")
def broadcast_object(original, obj, src_rank, group, dist_device):
    """Several processes can resume.

    Rank 0 sends the others its checkpoint with options in a DictConfig, which PyTorch's
    weights-only loader refuses. It can go when the original passes test_workers.py."""
    box = [obj]
    torch.distributed.broadcast_object_list(box, src_rank, group, dist_device)
    return box[0]


@replace(EpochBatchIterator, "state_dict")
def iterator_state(original, self):
    """A position in an epoch says of how many batches and processes it is.

    load_iterator reads that, and this goes with it (``test_another_max_tokens``)."""
    return {**original(self), "batches": len(self.frozen_batches), "processes": self.num_shards}


@replace(EpochBatchIterator, "load_state_dict")
def load_iterator(original, self, state):
    """A training run resumes at the same share of the epoch.

    fairseq counts the batches of a process: with more or smaller ones it reads part of the epoch
    again, with fewer it leaves text out or ends. It can go when the original passes
    ``test_another_max_tokens`` and ``test_another_number_of_processes``."""
    position = state.get("iterations_in_epoch", 0)
    batches, processes = state.get("batches"), state.get("processes", self.num_shards)
    if position > 0 and all(isinstance(n, int) and n > 0 for n in (batches, processes)):
        self.epoch = state["epoch"]  # whose batches are counted
        now = len(self.frozen_batches)
        if (now, self.num_shards) != (batches, processes):
            position = position * processes * now // (batches * self.num_shards)
            state = {**state, "iterations_in_epoch": min(position, len(self) - 1)}
    return original(self, state)


@replace(GroupedIterator, "__init__")
def init_groups(original, self, iterable, chunk_size, skip_remainder_batch=False):
    """An epoch that resumes within a group of ``--update-freq`` batches is read to its end.

    fairseq counts a group too few, and reads the whole epoch again. It can go when the original
    passes ``test_another_max_tokens``."""
    original(self, iterable, chunk_size, skip_remainder_batch)
    if not skip_remainder_batch:
        left = len(iterable) - getattr(iterable, "n", 0)
        self.total = self.n + math.ceil(left / chunk_size)


@replace(Trainer, "save_checkpoint")
def save_checkpoint(original, self, filename, extra_state):
    """A checkpoint has the count of ``--patience``.

    :func:`load_checkpoint` needs it, and this goes with it (``test_counts_from_0``)."""
    count = program.should_stop_early  # fairseq has just brought its count up to date
    if hasattr(count, "best"):
        numbers = {"best": float(count.best), "num_runs": int(count.num_runs)}
        extra_state = {**extra_state, "patience": numbers}
    return original(self, filename, extra_state)


# ---- whole checkpoints ----------------------------------------------------------------------


@replace(checkpoint_utils, "torch_persistent_save")
def save(original, state: dict, path: str, async_write: bool = False) -> None:
    """A checkpoint is written whole or not at all.

    After an error fairseq 0.12 appends it to the half it had written. It can go when the original
    passes ``test_the_middle_of_a_write``."""
    if async_write or not PathManager.supports_rename(path):
        return original(state, path, async_write=async_write)
    return write_checkpoint(state, Path(path))


@replace(PathManager, "copy")
def copy(original, source: str, path: str, overwrite: bool = False) -> bool:
    """A checkpoint is copied whole or not at all.

    fairseq copies in place: a kill or a full disk leaves half of one. It can go when the original
    passes ``test_the_middle_of_a_write``."""
    if not overwrite or not PathManager.supports_rename(path):
        return original(source, path, overwrite=overwrite)
    with writing(Path(path)) as temporary:
        shutil.copyfile(source, temporary)
    return True


# ---- divergence -----------------------------------------------------------------------------


@replace(NanDetector, "add_hooks")
def add_hooks(original, detector, module) -> None:
    """fairseq's hooks that should name the module that overflowed are left out.

    They end in a StopIteration at the encoder's output. It can go when without it
    ``test_divergence_ends_in_one_line`` passes."""


@replace(Trainer, "train_step")
def train_step(original, trainer, *args, **kwargs):
    """A training run that diverges says so in one line.

    It can go when the original passes ``test_divergence_ends_in_one_line``."""
    try:
        return original(trainer, *args, **kwargs)
    except FloatingPointError as error:
        # several workers compare the norms of their gradients first, and nan is not equal to nan
        norms = str(error).partition("grad_norm across the workers")[2]
        if str(error) == "gradients are Nan/Inf" or "nan" in norms or "inf" in norms:
            before = f"the weights before it: {trainer.cfg.checkpoint.save_dir}/crash.pt"
            update = trainer.get_num_updates() + 1
            what = f"the gradients of update {update} are not finite ({before})"
        elif "Minimum loss scale reached" in str(error):
            what = "the minimum loss scale is reached"
        else:
            raise
        remedy = "lower --lr, raise --warmup-updates, or set --clip-norm"
        raise UserError(f"training has diverged: {what}: {remedy}") from error


# ---- stopping -------------------------------------------------------------------------------

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
SAVE_EVERY = 300.0  # seconds, at most, between two checkpoints


class _Stop:
    """Whether this training should save, and stop."""

    received, time = 0, math.inf  # nothing is due in a user's own loop
    wanted = due = 0  # of all processes, after the update

    def __init__(self):
        self.handlers: dict[int, Any] = {}  # of the process, before this training

    def begin(self) -> None:
        if self.time < math.inf:  # it has, with an earlier epoch
            return
        self.time = time.monotonic()
        with suppress(ValueError):  # only the main thread may
            for number in SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:
                    self.handlers[number] = signal.signal(number, self.receive)

    def end(self) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
        self.handlers.clear()
        self.received = self.wanted = self.due = 0
        self.time = math.inf

    def receive(self, number: int, frame) -> None:
        self.received = self.received or number
        if number == signal.SIGINT:  # PyTorch sends one after a SIGTERM to several processes
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # one more Ctrl-C ends it at once

    def requests(self) -> tuple[int, int]:
        """Of this process: the signal to stop for (0: none), and whether a checkpoint is due."""
        return self.received, int(time.monotonic() - self.time > SAVE_EVERY)


stop = _Stop()


@replace(program, "main")
def main(original, *args, **kwargs):
    """After a training, signals mean what they meant before.

    :func:`train` takes them. It can go with that one (``test_what_a_training_leaves``)."""
    try:
        return original(*args, **kwargs)
    finally:
        stop.end()


def _end_with_the_training() -> None:
    while signal.sigwaitinfo(SIGNALS).si_pid != os.getppid():
        pass
    os._exit(0)


@replace(signal_handling, "_set_worker_signal_handlers")
def set_worker_signal_handlers(original) -> None:
    """A training's data workers outlive a signal, unless the training sends it.

    PyTorch's end at SIGTERM, which a batch system sends to every process, and then the training
    fails instead of saving. It can go when the original passes
    ``test_a_signal_that_the_data_workers_get_too``."""
    original()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    threading.Thread(target=_end_with_the_training, daemon=True).start()


@replace(program, "train")
def train(original, cfg, trainer, *args):
    """A training run that has finished stays so when it is started again.

    fairseq makes one more update, and continues one that ended by an early stop. It can go when the
    original passes test_stopping.py."""
    runs, patience = getattr(program.should_stop_early, "num_runs", 0), cfg.checkpoint.patience
    updates, most = trainer.get_num_updates(), cfg.optimization.max_update
    if 0 < patience <= runs:
        why = f"early stop since the last {runs} validations of this run were no better"
    elif 0 < most <= updates:
        why = f"no update is left: {updates} were made, --max-update is {most}"
    else:
        stop.begin()
        return original(cfg, trainer, *args)
    logger.info(why)
    return [None], True


@replace(Trainer, "_aggregate_logging_outputs")
def aggregate_logging_outputs(original, self, logging_outputs, *stats, ignore=False):
    """Several processes stop at the same update.

    Without this one stops and the others wait for it. The requests are all-reduced with the
    statistics of an update. It can go with :func:`validate_and_save` (test_workers.py)."""
    outputs, sums = original(self, logging_outputs, *stats, *stop.requests(), ignore=ignore)
    *sums, stop.wanted, stop.due = sums
    return outputs, sums


@replace(program, "validate_and_save")
def validate_and_save(original, cfg, trainer, task, epoch_itr, *args):
    """On a signal, every five minutes, and if there is no best metric, a checkpoint is saved.

    Without this a signal loses all updates since the last one. The update is finished; the exit
    status is 128 plus the signal's number. It can go when fairseq does so (test_stopping.py)."""
    metric = cfg.checkpoint.best_checkpoint_metric
    try:
        losses, ended = original(cfg, trainer, task, epoch_itr, *args)
    except KeyError as error:
        if error.args != (metric,):
            raise
        checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
        wrong = f"--best-checkpoint-metric {metric}: validation does not compute it"
        raise UserError(f"{wrong}: choose another") from error
    if trainer.data_parallel_world_size == 1:
        stop.wanted, stop.due = stop.requests()
    if ended or not (stop.wanted or stop.due):
        return losses, ended
    checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
    stop.time = time.monotonic()
    if not stop.wanted:
        return losses, ended
    number = stop.received or signal.SIGTERM  # another process was asked to stop
    if trainer.is_data_parallel_master:
        logger.warning(f"stopped at update {trainer.get_num_updates()}")
    if trainer.data_parallel_world_size > 1:
        torch.distributed.barrier()  # torchrun ends all when the first ends
    raise SystemExit(128 + number)
