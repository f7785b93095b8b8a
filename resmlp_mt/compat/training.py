"""How fairseq's trainer computes, and what it says when numbers go wrong."""

import os

import torch
from fairseq.nan_detector import NanDetector
from fairseq.trainer import Trainer

from resmlp_mt.compat import divergence
from resmlp_mt.compat.replacing import replace_once
from resmlp_mt.errors import UserError

PRECISIONS = ("highest", "high", "medium")


def explain_divergence() -> None:
    """Have fairseq say where numbers stopped being finite, and warn of Adagrad without warm-up.

    See :mod:`resmlp_mt.compat.divergence`.
    """
    replace_once(NanDetector, "add_hooks")(divergence.add_hooks)
    replace_once(Trainer, "_build_optimizer")(divergence.build_optimizer)


def set_matmul_precision() -> None:
    """Follow ``RESMLP_MT_MATMUL_PRECISION``: how float32 matrix products are computed.

    ``highest`` (PyTorch's default), ``high`` or ``medium``, see
    ``torch.set_float32_matmul_precision``. On a CPU with bfloat16 units (AMX) ``medium`` multiplies
    in bfloat16 and adds in float32; weights, activations and everything else stay float32.

    Raises:
        UserError: for another value.
    """
    precision = os.environ.get("RESMLP_MT_MATMUL_PRECISION")
    if not precision:
        return
    if precision not in PRECISIONS:
        raise UserError(
            f"RESMLP_MT_MATMUL_PRECISION={precision}: choose one of {', '.join(PRECISIONS)}"
        )
    torch.set_float32_matmul_precision(precision)
