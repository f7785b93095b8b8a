"""Sentences longer than training's: what A is at positions that training never reached.

A row of A is trained by the sentences that are at least as long, so that beyond the longest (and,
with few examples, before it) A still has its random initial values. The remedy is that a position
past the reach R of training sees its neighbours as the last position that was reached sees its own:

    A[t, s] = A[t - d, s - d]   with   d = max(t, s) - (R - 1) > 0,

zero where that is before the first position. It is Toeplitz there; inside R nothing changes.
"""

from typing import Dict

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resmlp_mt.errors import UserError
from resmlp_mt.model.token_mixing import ToeplitzTokenMixing, TokenMixing


def extend_(model: nn.Module, reach: int) -> None:
    """Replace what lies past the first *reach* positions in every A of a model, in place.

    Args:
        reach: R; nothing changes if it is N or more.
    """
    for module in model.modules():
        if isinstance(module, TokenMixing):
            _extend_one_(module, reach)


@torch.no_grad()
def _extend_one_(mixing: TokenMixing, reach: int) -> None:
    """For a linear or Toeplitz A, H x N x N or its weights by distance."""
    if isinstance(mixing, ToeplitzTokenMixing):
        # every distance that training saw is less than R
        distances = torch.arange(mixing.weight.size(1), device=mixing.weight.device)
        if not mixing.causal:
            distances = (distances - (mixing.positions - 1)).abs()
        mixing.weight[:, distances >= reach] = 0
    else:
        row = torch.arange(mixing.positions, device=mixing.weight.device).unsqueeze(1)
        column = row.t()
        moved = (torch.maximum(row, column) - (reach - 1)).clamp(min=0)
        row, column = row - moved, column - moved
        weight = mixing.weight[:, row.clamp(min=0), column.clamp(min=0)]
        mixing.weight.copy_(weight.masked_fill((row < 0) | (column < 0), 0))
    if mixing.bias is not None:
        mixing.bias[:, reach:] = mixing.bias[:, reach - 1 : reach]


def widen_(model: nn.Module, weights: Dict[str, Tensor], reach: int) -> None:
    """Make the weights of fewer positions those of every, larger, A of a model; what is new is
    zero.

    Args:
        weights: those of a checkpoint, changed in place.
        reach: R, within the positions of the checkpoint.

    Raises:
        UserError: if *reach* is beyond the positions of the checkpoint.
    """
    for name, module in model.named_modules():
        if isinstance(module, TokenMixing):
            _widen_one_(weights, name, module, reach)


def _widen_one_(weights: Dict[str, Tensor], name: str, mixing: TokenMixing, reach: int) -> None:
    for part, own in mixing.named_parameters():
        saved = weights.get(f"{name}.{part}")
        if saved is None or saved.size(-1) >= own.size(-1):
            continue
        centred = part == "weight" and isinstance(mixing, ToeplitzTokenMixing) and not mixing.causal
        positions = (saved.size(-1) + 1) // 2 if centred else saved.size(-1)
        if reach > positions:
            raise UserError(
                f"token_mixing_reach {reach}: the checkpoint has {positions} positions: "
                "give no more than that"
            )
        missing = own.size(-1) - saved.size(-1)
        # distances grow on both sides of 0, rows and columns at their ends
        padding = [missing // 2] * 2 if centred else [0, missing] * (saved.dim() - 1)
        weights[f"{name}.{part}"] = F.pad(saved, padding)
