"""``RESMLP_MT_MATMUL_PRECISION``: how the programs of fairseq multiply float32 matrices.

``highest`` (the default of PyTorch), ``high`` or ``medium``, see
``torch.set_float32_matmul_precision``. On a CPU with bfloat16 units (AMX) ``medium`` multiplies in
bfloat16 and adds in float32. Weights, activations and everything else stay float32. It can go when
fairseq-train has an option for it.
"""

import os

import torch

from resmlp_mt.errors import UserError

PRECISIONS = ("highest", "high", "medium")


def set_matmul_precision() -> None:
    """Follow the environment.

    Raises:
        UserError: for a value that is none of :data:`PRECISIONS`.
    """
    precision = os.environ.get("RESMLP_MT_MATMUL_PRECISION")
    if not precision:
        return
    if precision not in PRECISIONS:
        raise UserError(
            f"RESMLP_MT_MATMUL_PRECISION={precision}: choose one of {', '.join(PRECISIONS)}"
        )
    torch.set_float32_matmul_precision(precision)


set_matmul_precision()
