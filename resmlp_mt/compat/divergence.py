"""What a user is told about training that diverges: before it does, and when it has.

:mod:`resmlp_mt.compat` puts these in the place of fairseq's functions.
"""

import logging
from functools import partial
from typing import Optional

import torch
from torch import nn

from resmlp_mt.models.model import ResMLPModel

logger = logging.getLogger(__name__)

REMEDY = "lower --lr, raise --warmup-updates, or set --clip-norm"
# without warm-up: tests/soak/stability.py found 6 + 6 layers of 512 channels to end in numbers that
# are not finite at 0.02; at 0.01 the loss rises far above its first value before it falls
WARN_FROM = 0.01
# with warm-up: Adagrad divides by the root of its sum of squared gradients, so that its step at the
# peak is some rate / sqrt(updates until then). Of those tried by tests/soak/stability.py (6 to 24
# layers, 64 channels) 0.2 / sqrt(300) held at every depth and 0.2 / sqrt(100) did not
LARGEST_STEP = 0.011


def add_hooks(original, detector, module: nn.Module) -> None:
    """For ``fairseq.nan_detector.NanDetector.add_hooks``: watch every tensor that a module returns.

    fairseq runs its detector over the batch whose gradients were not finite, to name the module
    where that began. PyTorch's hook for gradients, which it uses, takes a module's first tensor and
    finds none in the encoder's output, a dictionary of lists: where the error should be explained,
    training ends with a StopIteration.

    Args:
        original: the method that this one stands for.
        detector: fairseq's NanDetector.
        module: one of the model's.
    """
    if detector.forward:
        detector.fhooks.append(module.register_forward_hook(detector.fhook_fn))
    if detector.backward:
        detector.bhooks.append(module.register_forward_hook(partial(_watch_gradients, detector)))


def _watch_gradients(detector, module: nn.Module, inputs, output) -> None:
    """Call the detector with the gradient of each tensor in *output*, however it is wrapped."""
    if isinstance(output, dict):
        output = list(output.values())
    if isinstance(output, (list, tuple)):
        for part in output:
            _watch_gradients(detector, module, inputs, part)
    elif torch.is_tensor(output) and output.requires_grad:
        # a hook's result would replace the gradient: bhook_fn returns None
        output.register_hook(lambda gradient: detector.bhook_fn(module, None, (gradient,)))


def explain(error: FloatingPointError, trainer) -> Optional[str]:
    """One line for training that fairseq has ended because of numbers that are not finite.

    Args:
        error: what fairseq's trainer raised.
        trainer: the trainer, or None if it is not known.
    """
    text = str(error)
    # several workers compare the norms of their gradients first, and nan is not equal to nan
    norms = text.partition("grad_norm across the workers")[2]
    of_workers = "nan" in norms or "inf" in norms
    if text == "gradients are Nan/Inf" or of_workers:
        where = kept = ""
        if trainer is not None:
            where = f" of update {trainer.get_num_updates() + 1}"
            kept = f" (the weights before it: {trainer.cfg.checkpoint.save_dir}/crash.pt)"
        return f"training has diverged: the gradients{where} are not finite{kept}: {REMEDY}"
    if "Minimum loss scale reached" in text:
        return f"training has diverged, the minimum loss scale is reached: {REMEDY}"
    return None


def build_optimizer(original, trainer) -> None:
    """For ``fairseq.trainer.Trainer._build_optimizer``: warn of Adagrad with little or no warm-up.

    Args:
        original: the method that this one stands for.
        trainer: fairseq's trainer.
    """
    original(trainer)
    message = warning(trainer.cfg)
    ours = any(isinstance(module, ResMLPModel) for module in trainer.model.modules())
    if message is not None and ours and trainer.is_data_parallel_master:
        logger.warning(message)


def warning(cfg) -> Optional[str]:
    """What to say of a recipe under which a ResMLP is likely to diverge, or None.

    Args:
        cfg: fairseq's configuration of a training.
    """
    rate, warm_up = cfg.optimization.lr[0], getattr(cfg.lr_scheduler, "warmup_updates", None)
    if getattr(cfg.optimizer, "_name", None) != "adagrad" or warm_up is None or rate < WARN_FROM:
        return None
    enough = rate * rate / LARGEST_STEP**2
    if warm_up >= enough:
        return None
    given = f"with --warmup-updates {warm_up}" if warm_up else "without --warmup-updates"
    return (
        f"--optimizer adagrad --lr {rate:g} {given}: the first updates move every weight so far "
        "that training is likely to diverge: give --warmup-updates of at least "
        f"{enough // 1 + 1:.0f} (the paper: 32000 for --lr 0.2) or lower --lr"
    )
