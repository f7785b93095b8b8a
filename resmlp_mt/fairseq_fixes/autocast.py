"""``RESMLP_MT_AUTOCAST=bfloat16``: fairseq-train computes the loss under ``torch.autocast``.

Matrix products and what stands between them are in bfloat16 then. Weights, their gradients, the
optimizer, softmax and the loss stay float32, and so does validation. ``--amp`` of fairseq is
float16 for GPUs alone. It can go when fairseq-train has an option for bfloat16 on a CPU.
"""

import os

import torch
from fairseq.tasks.fairseq_task import FairseqTask

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes.replacing import replace_once

VARIABLE = "RESMLP_MT_AUTOCAST"


@replace_once(FairseqTask, "train_step")
def train_step(original, self, sample, model, criterion, *args, **kwargs):
    precision = os.environ.get(VARIABLE)
    if not precision:
        return original(self, sample, model, criterion, *args, **kwargs)
    if precision != "bfloat16":
        raise UserError(f"{VARIABLE}={precision}: only bfloat16 is known: unset it or write that")
    device = next(model.parameters()).device.type

    # the forward pass alone: the backward pass has the types of the forward one by itself
    def loss_of(model, sample):
        with torch.autocast(device, torch.bfloat16):
            return criterion(model, sample)

    return original(self, sample, model, loss_of, *args, **kwargs)
