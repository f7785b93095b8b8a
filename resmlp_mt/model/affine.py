"""The elementwise maps: Aff, which stands where a Transformer has LayerNorm, and GELU."""

from collections.abc import Callable

import torch
from fairseq import utils
from torch import Tensor, nn
from torch.nn import functional as F


class Affine(nn.Module):
    """``Aff(x) = Diag(alpha) x + beta``, eq. 1 of the ResMLP paper. Before a residual branch it
    starts as the identity; after one, alpha starts at the LayerScale value *init*, so that a deep
    model begins close to the identity."""

    def __init__(self, channels: int, init: float = 1.0):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((channels,), float(init)))
        self.beta = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.beta, self.alpha, x)


def activation_function(name: str) -> Callable[[Tensor], Tensor]:
    """fairseq's function of that name. ``gelu`` is PyTorch's, which keeps the states' type."""
    return F.gelu if name == "gelu" else utils.get_activation_fn(name)
