"""What a user reads of training that diverges: before it does, and when it has.

Without this, the NanDetector of fairseq, which should name the module where numbers stopped being
finite, ends in a StopIteration on our encoder, training ends in a traceback, and nothing warns of
Adagrad without warm-up. The hooks can go when NanDetector reads outputs that are dictionaries
(test_stability.py, ``test_detector_watches_gradients_of_the_encoders_output``).
"""

import logging
from functools import partial
from typing import Optional

import torch
from fairseq.nan_detector import NanDetector
from fairseq.trainer import Trainer
from torch import nn

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes.replacing import replace_once
from resmlp_mt.model.model import ResMLPModel

logger = logging.getLogger(__name__)

REMEDY = "lower --lr, raise --warmup-updates, or set --clip-norm"
# without warm-up: tests/soak/stability.py found 6 + 6 layers of 512 channels to end in numbers that
# are not finite at 0.02; at 0.01 the loss rises far above its first value before it falls
WARN_FROM = 0.01
# with warm-up: Adagrad divides by the root of its sum of squared gradients, so that its step at the
# peak is some rate / sqrt(updates until then). Of those tried by tests/soak/stability.py (6 to 24
# layers, 64 channels) 0.2 / sqrt(300) held at every depth and 0.2 / sqrt(100) did not
LARGEST_STEP = 0.011


@replace_once(NanDetector, "add_hooks")
def add_hooks(original, detector, module: nn.Module) -> None:
    """Watch every tensor that a module returns.

    fairseq runs its detector over the batch whose gradients were not finite. The hook for
    gradients that it uses takes the first tensor of an output. It finds none in that of the
    encoder, a dictionary of lists.
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


@replace_once(Trainer, "train_step")
def train_step(original, trainer, *args, **kwargs):
    """
    Raises:
        UserError: for gradients that are not finite.
    """
    try:
        return original(trainer, *args, **kwargs)
    except FloatingPointError as error:
        # several workers compare the norms of their gradients first, and nan is not equal to nan
        norms = str(error).partition("grad_norm across the workers")[2]
        if str(error) == "gradients are Nan/Inf" or "nan" in norms or "inf" in norms:
            raise UserError(
                f"training has diverged: the gradients of update {trainer.get_num_updates() + 1} "
                "are not finite (the weights before it: "
                f"{trainer.cfg.checkpoint.save_dir}/crash.pt): {REMEDY}"
            ) from error
        if "Minimum loss scale reached" in str(error):
            raise UserError(
                f"training has diverged, the minimum loss scale is reached: {REMEDY}"
            ) from error
        raise


@replace_once(Trainer, "_build_optimizer")
def build_optimizer(original, trainer) -> None:
    """Warn of Adagrad with little or no warm-up."""
    original(trainer)
    message = warning(trainer.cfg)
    ours = any(isinstance(module, ResMLPModel) for module in trainer.model.modules())
    if message is not None and ours and trainer.is_data_parallel_master:
        logger.warning(message)


def warning(cfg) -> Optional[str]:
    """What to say of a configuration of fairseq-train under which a ResMLP is likely to diverge,
    or None."""
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
