"""``RESMLP_MT_AUTOCAST=bfloat16``: training in bfloat16, on a CPU, too."""

import os
from contextlib import nullcontext

import torch
from fairseq.criterions import FairseqCriterion
from torch.nn.attention import SDPBackend, sdpa_kernel

from resmlp_mt.patching import replace
from resmlp_mt_runtime.errors import UserError

AUTOCAST = "RESMLP_MT_AUTOCAST"


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
        raise UserError(f"{AUTOCAST}={precision}: only bfloat16 is known: unset it or write that")
    device = next(model.parameters()).device.type
    # on a CPU PyTorch's fused attention takes two to eight times as long in bfloat16
    attention = sdpa_kernel(SDPBackend.MATH) if device == "cpu" else nullcontext()
    with torch.autocast(device, torch.bfloat16), attention:
        return original(self, model, *args, **kwargs)
