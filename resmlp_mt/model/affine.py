"""The per-channel affine map that stands where a Transformer has LayerNorm."""

import torch
from torch import Tensor, nn


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
