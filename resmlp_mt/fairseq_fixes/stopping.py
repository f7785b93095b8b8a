"""fairseq-train: it saves and stops on a signal, stays ended once it has ended, and saves a
checkpoint at least every five minutes."""

import logging
import math
import signal
import time
from contextlib import suppress

import torch
from fairseq import checkpoint_utils
from fairseq.trainer import Trainer
from fairseq_cli import train as imported

from resmlp_mt.patching import replace, running

logger = logging.getLogger(__name__)
program = running(imported)

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
SAVE_EVERY = 300.0  # seconds, at most, between two checkpoints


class _Stop:
    """Whether this training should save and stop, and the position of its last checkpoint."""

    trainer, received, time = None, 0, math.inf  # nothing is due in a user's own loop

    def begin(self, trainer) -> None:
        if self.trainer is trainer:
            return
        self.trainer, self.received = trainer, 0
        self.wanted = self.due = 0  # of all processes, after the update
        self.saved(None)
        with suppress(ValueError):  # only the main thread may
            for number in SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:
                    signal.signal(number, self.receive)

    def saved(self, position) -> None:
        self.position, self.time = position, time.monotonic()

    def receive(self, number: int, frame) -> None:
        self.received = self.received or number
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # one more Ctrl-C ends it at once
        # data workers may end by the same signal, which PyTorch would make an error here
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def requests(self) -> tuple[int, int]:
        """Of this process: the signal to stop for (0: none), and whether a checkpoint is due."""
        return self.received, int(time.monotonic() - self.time > SAVE_EVERY)


stop = _Stop()


@replace(program, "train")
def train(original, cfg, trainer, *args):
    """A training that has ended stays so when it is started again.

    fairseq makes one more update, and continues one that ended by an early stop. It can go when the
    original passes test_stopping.py."""
    runs, patience = getattr(program.should_stop_early, "num_runs", 0), cfg.checkpoint.patience
    updates, most = trainer.get_num_updates(), cfg.optimization.max_update
    if 0 < patience <= runs:
        why = f"early stop since the last {runs} validations of this training were no better"
    elif 0 < most <= updates:
        why = f"no update is left: {updates} were made, --max-update is {most}"
    else:
        stop.begin(trainer)
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


@replace(checkpoint_utils, "save_checkpoint")
def save_checkpoints(original, cfg, trainer, epoch_itr, val_loss):
    """What has just been saved is not saved again.

    It goes with :func:`validate_and_save` (test_stopping.py)."""
    path = original(cfg, trainer, epoch_itr, val_loss)
    stop.saved(_position(trainer, epoch_itr))
    return path


def _position(trainer, epoch_itr) -> tuple:
    return trainer.get_num_updates(), epoch_itr.epoch, epoch_itr.iterations_in_epoch


@replace(program, "validate_and_save")
def validate_and_save(original, cfg, trainer, task, epoch_itr, *args):
    """On a signal, and every five minutes, a checkpoint is saved.

    Without this a signal loses all updates since the last one. Here the update is finished and
    saved, and the exit status is 128 plus the signal's number. It can go when fairseq does so
    (test_stopping.py)."""
    losses, ended = original(cfg, trainer, task, epoch_itr, *args)
    if trainer.data_parallel_world_size == 1:
        stop.wanted, stop.due = stop.requests()
    if ended or not (stop.wanted or stop.due):
        return losses, ended
    if stop.position != _position(trainer, epoch_itr):
        checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
    if not stop.wanted:
        return losses, ended
    number = stop.received or signal.SIGTERM  # another process was asked to stop
    if trainer.is_data_parallel_master:
        logger.warning(f"stopped at update {trainer.get_num_updates()}")
    if trainer.data_parallel_world_size > 1:
        torch.distributed.barrier()  # torchrun ends all when the first ends
    raise SystemExit(128 + number)
