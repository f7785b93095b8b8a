"""Activation functions by the names of ``--activation-fn``."""

from typing import Callable

from fairseq import utils
from torch import Tensor
from torch.nn import functional as F


def activation_function(name: str) -> Callable[[Tensor], Tensor]:
    """The function that fairseq calls *name*.

    fairseq's own ``gelu`` turns 16-bit states into float32 and back, two passes over memory.
    PyTorch's does that within its loop.
    """
    return F.gelu if name == "gelu" else utils.get_activation_fn(name)
