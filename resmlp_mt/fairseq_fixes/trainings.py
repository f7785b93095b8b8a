"""What trainings need: to resume, to stop, to keep whole checkpoints, to say why they diverge, and
a loss that reads its scores once."""

import logging
import math
import os
import shutil
import signal
import time
from contextlib import nullcontext, suppress
from pathlib import Path

import torch
from fairseq import checkpoint_utils
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.models.transformer import TransformerDecoderBase, TransformerModelBase
from fairseq.nan_detector import NanDetector
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer
from fairseq_cli import train as imported
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves

from resmlp_mt.checkpoints import check_finite, naming, write_checkpoint, writing
from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes import replace, running

logger = logging.getLogger(__name__)
program = running(imported)

# ---- resuming -------------------------------------------------------------------------------


@replace(Trainer, "load_checkpoint")
def load_checkpoint(
    original, self, filename, reset_optimizer=False, *args, reset_meters=False, **kwargs
):
    """fairseq counts updates from 0 if a file has no optimizer state, takes one that is NaN,
    resumes at another place with another number of processes, and forgets the count of
    ``--patience`` (test_hostile_checkpoints.py, test_workers.py, test_stopping.py)."""
    kwargs["reset_meters"] = reset_meters
    with naming(filename, "cannot be resumed from"):
        extra_state = original(self, filename, reset_optimizer, *args, **kwargs)
        if extra_state is None:
            return None
        place = extra_state["train_iterator"]
        for name, least in (("epoch", 1), ("iterations_in_epoch", 0), ("batches_of_epoch", 1)):
            number = place.get(name, least)
            if not isinstance(number, int) or number < least:
                raise UserError(f"it is damaged: its {name} is {number!r:.60}")
        if not reset_optimizer:
            if self.get_num_updates() != self._optim_history[-1]["num_updates"]:
                raise UserError(
                    f"{filename} has no state of an optimizer, so training cannot resume from it: "
                    "--finetune-from-model takes its weights alone (and --reset-optimizer its "
                    "place in the data, too)"
                )
            states = getattr(self.optimizer.optimizer, "state", {})  # a composite one has none
            for number, values in enumerate(states.values()):
                named = {f"optimizer state {number}.{name}": v for name, v in values.items()}
                check_finite(named, filename)
    before, now = extra_state.pop("processes", None), self.data_parallel_world_size
    if isinstance(before, int) and before != now:  # the place is in batches of each process
        place["iterations_in_epoch"] = place.get("iterations_in_epoch", 0) * before // now
    self.resumed_at = place
    # the count starts anew where fairseq forgets the best validation, and from another's file
    another = Path(filename).resolve().parent != Path(self.cfg.checkpoint.save_dir).resolve()
    if "patience" in extra_state and not (reset_optimizer or reset_meters or another):
        with naming(filename, "has an invalid count for --patience"):
            count = extra_state["patience"]
            count = {"best": float(count["best"]), "num_runs": int(count["num_runs"])}
        vars(program.should_stop_early).update(count)
    return extra_state


@replace(Trainer, "get_train_iterator")
def get_train_iterator(original, self, epoch, *args, disable_iterator_cache=False, **kwargs):
    """Without ``--update-epoch-batch-itr`` fairseq makes the batches of all epochs in the first,
    but a resumed training makes others in the epoch where it begins. It can go when these are the
    same (test_stopping.py, ``test_stopped_three_times``)."""
    kwargs["disable_iterator_cache"] = disable_iterator_cache
    cached = not (disable_iterator_cache or self.cfg.dataset.update_epoch_batch_itr)
    place, made_in = getattr(self, "resumed_at", {}), epoch
    if cached and place.get("epoch") == epoch:
        made_in = place.get("batches_of_epoch", epoch)
    batches = original(self, made_in, *args, **kwargs)
    self.batches_of_epoch = vars(batches).setdefault("made_in", made_in)
    return batches


@replace(distributed_utils, "_broadcast_object_slow")
def broadcast_object(original, obj, src_rank, group, dist_device):
    """Rank 0 sends the others its checkpoint with options in a DictConfig, which PyTorch's
    weights-only loader refuses: several processes cannot resume. It can go when they can
    (test_workers.py)."""
    box = [obj]
    torch.distributed.broadcast_object_list(box, src_rank, group, dist_device)
    return box[0]


@replace(Trainer, "save_checkpoint")
def save_checkpoint(original, self, filename, extra_state):
    """Keep what :func:`load_checkpoint` and :func:`get_train_iterator` need."""
    if "train_iterator" in extra_state:  # not in crash.pt
        extra_state["train_iterator"]["batches_of_epoch"] = self.batches_of_epoch
    count = program.should_stop_early  # fairseq has just brought its count up to date
    if hasattr(count, "best"):
        numbers = {"best": float(count.best), "num_runs": int(count.num_runs)}
        extra_state = {**extra_state, "patience": numbers}
    return original(self, filename, extra_state)


# ---- stopping -------------------------------------------------------------------------------

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
SAVE_EVERY = 300.0  # seconds, at most, between two checkpoints


class _Stop:
    """Whether this training should save and stop, and where it saved last."""

    trainer, received, time = None, 0, math.inf  # nothing is due in a loop of a user's own

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

    def saved(self, place) -> None:
        self.place, self.time = place, time.monotonic()

    def receive(self, number: int, frame) -> None:
        self.received = self.received or number
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # one more Ctrl-C ends it at once
        # data workers may end by the same signal, which PyTorch would make an error here
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def wishes(self) -> tuple:
        """Of this process: the signal to stop for, and whether a checkpoint is due."""
        return self.received, int(time.monotonic() - self.time > SAVE_EVERY)


stop = _Stop()


@replace(program, "train")
def train(original, cfg, trainer, *args):
    """fairseq makes one more update whenever a finished training is started again, and trains on
    after an early stop. It can go when the original passes test_stopping.py."""
    runs, patience = getattr(program.should_stop_early, "num_runs", 0), cfg.checkpoint.patience
    updates, most = trainer.get_num_updates(), cfg.optimization.max_update
    hours, limit = trainer._previous_training_time / 3600, cfg.optimization.stop_time_hours
    if 0 < patience <= runs:
        why = f"early stop since the last {runs} validations of this training were no better"
    elif 0 < most <= updates:
        why = f"no update is left: {updates} were made, --max-update is {most}"
    elif 0 < limit < hours:
        why = f"no time is left: {hours:.1f} hours were used, --stop-time-hours is {limit:g}"
    else:
        stop.begin(trainer)
        return original(cfg, trainer, *args)
    logger.info(why)
    return [None], True


@replace(Trainer, "_aggregate_logging_outputs")
def aggregate_logging_outputs(original, self, logging_outputs, *stats, ignore=False):
    """Processes that train together stop at the same update: their wishes are summed with its
    statistics."""
    outputs, sums = original(self, logging_outputs, *stats, *stop.wishes(), ignore=ignore)
    *sums, stop.wanted, stop.due = sums
    return outputs, sums


@replace(checkpoint_utils, "save_checkpoint")
def save_checkpoints(original, cfg, trainer, epoch_itr, val_loss):
    path = original(cfg, trainer, epoch_itr, val_loss)
    stop.saved(_place(trainer, epoch_itr))
    return path


def _place(trainer, epoch_itr) -> tuple:
    return trainer.get_num_updates(), epoch_itr.epoch, epoch_itr.iterations_in_epoch


@replace(program, "validate_and_save")
def validate_and_save(original, cfg, trainer, task, epoch_itr, *args):
    """Without this, a signal loses all updates since the last checkpoint. Here the update is
    finished and saved, and the exit status is 128 plus the signal's number. It can go when fairseq
    does so (test_stopping.py)."""
    losses, ended = original(cfg, trainer, task, epoch_itr, *args)
    if trainer.data_parallel_world_size == 1:
        stop.wanted, stop.due = stop.wishes()
    if ended or not (stop.wanted or stop.due):
        return losses, ended
    if stop.place != _place(trainer, epoch_itr):
        checkpoint_utils.save_checkpoint(cfg.checkpoint, trainer, epoch_itr, None)
    if not stop.wanted:
        return losses, ended
    number = stop.received or signal.SIGTERM  # another process was asked to stop
    if trainer.is_data_parallel_master:
        logger.warning(f"stopped at update {trainer.get_num_updates()}")
    if trainer.data_parallel_world_size > 1:
        torch.distributed.barrier()  # the first to end would end the one that saves
    raise SystemExit(128 + number)


# ---- whole checkpoints ----------------------------------------------------------------------

ROOM = "make room there, then the same command resumes from the last checkpoint"


@replace(checkpoint_utils, "torch_persistent_save")
def save(original, state: dict, path: str, async_write: bool = False) -> None:
    """After an error fairseq 0.12 appends the checkpoint to the half it had written, and below it
    copies in place: a kill or a full disk leaves half of one. Both can go when the originals pass
    test_interruption.py, ``test_the_middle_of_a_write``."""
    if async_write or not PathManager.supports_rename(path):
        return original(state, path, async_write=async_write)
    return write_checkpoint(state, Path(path), ROOM)


@replace(PathManager, "copy")
def copy(original, source: str, path: str, overwrite: bool = False) -> bool:
    if not overwrite or not PathManager.supports_rename(path):
        return original(source, path, overwrite=overwrite)
    with writing(Path(path), ROOM) as temporary:
        shutil.copyfile(source, temporary)
    return True


# ---- divergence -----------------------------------------------------------------------------


@replace(NanDetector, "add_hooks")
def add_hooks(original, detector, module: nn.Module) -> None:
    """fairseq's NanDetector ends in a StopIteration at the encoder's output, a dictionary of lists.
    It can go when the original passes test_stability.py,
    ``test_detector_watches_gradients_of_the_encoders_output``."""

    def watch_gradients(module, inputs, output) -> None:
        for part in tree_leaves(output):
            if torch.is_tensor(part) and part.requires_grad:
                # a hook's result would replace the gradient: bhook_fn returns None
                part.register_hook(lambda gradient: detector.bhook_fn(module, None, (gradient,)))

    if detector.forward:
        detector.fhooks.append(module.register_forward_hook(detector.fhook_fn))
    if detector.backward:
        detector.bhooks.append(module.register_forward_hook(watch_gradients))


@replace(Trainer, "train_step")
def train_step(original, trainer, *args, **kwargs):
    """Without this, a training that diverges ends in a traceback (test_stability.py)."""
    try:
        return original(trainer, *args, **kwargs)
    except FloatingPointError as error:
        # several workers compare the norms of their gradients first, and nan is not equal to nan
        norms = str(error).partition("grad_norm across the workers")[2]
        if str(error) == "gradients are Nan/Inf" or "nan" in norms or "inf" in norms:
            what = (
                f"the gradients of update {trainer.get_num_updates() + 1} are not finite (the "
                f"weights before it: {trainer.cfg.checkpoint.save_dir}/crash.pt)"
            )
        elif "Minimum loss scale reached" in str(error):
            what = "the minimum loss scale is reached"
        else:
            raise
        raise UserError(
            f"training has diverged: {what}: lower --lr, raise --warmup-updates, or set --clip-norm"
        ) from error


# ---- loss -----------------------------------------------------------------------------------

CACHED = 1 << 18  # scores, about what a core's cache holds


@replace(LabelSmoothedCrossEntropyCriterion, "compute_loss")
def compute_loss(original, self, model, net_output, sample, reduce=True):
    """fairseq's loss goes some fifteen times over the scores of all words, a quarter of the time of
    a small model on a CPU. It can go when the original is as fast."""
    plain = reduce and not self.ignore_prefix_size and not self.report_accuracy
    if not plain or not _gives_logits(model) or net_output[0].is_cuda:
        return original(self, model, net_output, sample, reduce)
    scores, target = net_output[0].flatten(0, -2), sample["target"].flatten()
    return SmoothedLoss.apply(scores, target, self.eps, self.padding_idx)


def _gives_logits(model) -> bool:
    """Whether the probabilities are the softmax of what the model gives. A subclass may say
    otherwise, as fairseq's pointer generator does."""
    if not isinstance(model, TransformerModelBase) or model.decoder.adaptive_softmax is not None:
        return False
    parts = ((model, TransformerModelBase), (model.decoder, TransformerDecoderBase))
    return all(type(own).get_normalized_probs is of.get_normalized_probs for own, of in parts)


class SmoothedLoss(torch.autograd.Function):
    """The loss with label smoothing, and that without, summed over N *targets*. *scores* are N x V
    and read in pieces that stay in the cache, once forwards and once backwards."""

    @staticmethod
    def forward(ctx, scores, targets, smoothing, padding):
        types = scores.size(1)
        norms, loss, plain = [], scores.new_zeros((), dtype=torch.float32), 0.0
        share = smoothing / (types - 1)  # of each word but the right one
        for some, right in _pieces(scores, targets):
            some, kept = some.float(), right != padding
            norm = some.logsumexp(1)
            found = norm - some.gather(1, right[:, None])[:, 0]
            others = norm * types - some.sum(1)
            plain = plain + found[kept].sum()
            loss = loss + ((1 - smoothing - share) * found + share * others)[kept].sum()
            norms.append(norm)
        ctx.save_for_backward(scores, targets, torch.cat(norms))
        ctx.smoothing, ctx.padding, ctx.share = smoothing, padding, share
        ctx.mark_non_differentiable(plain)
        return loss, plain

    @staticmethod
    def backward(ctx, gradient, _):
        scores, targets, norms = ctx.saved_tensors
        result, rows = torch.empty_like(scores), 0
        for some, right in _pieces(scores, targets):
            place = slice(rows, rows := rows + len(some))
            # softmax less the smoothed target
            piece = (some.float() - norms[place, None]).exp_().sub_(ctx.share)
            at_right = piece.new_full((len(right), 1), ctx.share + ctx.smoothing - 1)
            piece.scatter_add_(1, right[:, None], at_right)
            torch.mul(piece, ((right != ctx.padding) * gradient)[:, None], out=result[place])
        return result, None, None, None


def _pieces(scores, targets):
    rows = max(1, CACHED // scores.size(1))
    return zip(scores.split(rows), targets.split(rows))


# ---- precision ------------------------------------------------------------------------------

AUTOCAST = "RESMLP_MT_AUTOCAST"


@replace(FairseqTask, "train_step")
def autocast_step(original, self, sample, model, criterion, *args, **kwargs):
    """``RESMLP_MT_AUTOCAST=bfloat16`` computes the loss under ``torch.autocast``; weights,
    gradients, optimizer, softmax and validation stay float32. It can go when fairseq-train has an
    option for it: --amp is float16, on GPUs only."""
    precision = os.environ.get(AUTOCAST)
    if not precision:
        return original(self, sample, model, criterion, *args, **kwargs)
    if precision != "bfloat16":
        raise UserError(f"{AUTOCAST}={precision}: only bfloat16 is known: unset it or write that")
    device = next(model.parameters()).device.type

    def loss_of(model, sample):  # the backward pass takes the types of the forward pass
        # on a CPU PyTorch's fused attention takes two to eight times as long in bfloat16
        attention = sdpa_kernel(SDPBackend.MATH) if device == "cpu" else nullcontext()
        with torch.autocast(device, torch.bfloat16), attention:
            return criterion(model, sample)

    return original(self, sample, model, loss_of, *args, **kwargs)
