"""``RESMLP_MT_AUTOCAST=bfloat16``: training in bfloat16, on a CPU, too."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from fairseq.criterions import FairseqCriterion
from fairseq.modules import checkpoint_activations
from torch.nn.attention import SDPBackend, sdpa_kernel

from resmlp_mt.patching import replace
from resmlp_mt_runtime.errors import UserError

AUTOCAST = "RESMLP_MT_AUTOCAST"


@contextmanager
def _autocast(device: str, dtype: torch.dtype = torch.bfloat16) -> Iterator[None]:
    # on a CPU PyTorch's fused attention takes two to eight times as long in bfloat16
    attention = sdpa_kernel(SDPBackend.MATH) if device == "cpu" else nullcontext()
    with torch.autocast(device, dtype), attention:
        yield


@replace(FairseqCriterion, "__call__")
def autocast_loss(original, self, model, *args, **kwargs):
    """``RESMLP_MT_AUTOCAST=bfloat16`` computes the loss of a training under ``torch.autocast``.

    Weights, gradients, optimizer, softmax and validation stay float32. It can go when fairseq-train
    has an option for it: --amp is float16, on GPUs only
    (``test_products_are_bfloat16_and_gradients_float32``)."""
    precision = os.environ.get(AUTOCAST)
    if not precision or not model.training:
        return original(self, model, *args, **kwargs)
    if precision != "bfloat16":
        raise UserError(f"{AUTOCAST}={precision}: only bfloat16 is supported: set that or unset it")
    with _autocast(next(model.parameters()).device.type):
        return original(self, model, *args, **kwargs)


@replace(checkpoint_activations, "_checkpointed_forward")
def autocast_again(original, forward, *args, **kwargs):
    """``--checkpoint-activations`` computes a layer a second time as it did the first time.

    fairseq does so without autocast, in float32, which is slow. It can go when the original passes
    ``test_products_are_bfloat16_and_gradients_float32``."""
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            forward = _autocast(device, torch.get_autocast_dtype(device))(forward)
    return original(forward, *args, **kwargs)
