"""The affine maps around token mixing, both taken behind it.

Token mixing (by A or a depthwise convolution) is a map of positions, which a map of channels
commutes with. With pre-affine
``a1 x + b1`` and post-affine ``a2 y + b2``:

``a2 (A (a1 x + b1) + b) + b2 = a1 a2 (A x) + a2 b1 (A 1) + (a2 b + b2)``

where ``A 1`` is the sum of A's row over the sentence's own positions. Folding computes the three
maps once; training computes them inside the graph at every step, so that neither ``a1 x + b1`` nor
what comes out of A is kept twice.
"""

from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn

from resmlp_mt.modules.affine import Affine


class MixingMaps(NamedTuple):
    """``scale (A x) + row_sum_scale (A 1) + offset``.

    Attributes:
        scale: C.
        row_sum_scale: C, or None where it is 0 or part of the offset.
        offset: T x C.
    """

    scale: Tensor
    row_sum_scale: Optional[Tensor]
    offset: Tensor


def mixing_maps(
    mixing: nn.Module, pre: Optional[nn.Module], post: Affine, length: int
) -> MixingMaps:
    """The three maps for sentences of *length* tokens; a *pre* that is not affine is left out."""
    offset = post.beta.expand(length, -1)
    if mixing.bias is not None:
        bias = _to_channels(mixing.biases(length).unsqueeze(-1), mixing.channels).squeeze(1)
        offset = torch.addcmul(offset, post.alpha, bias)
    if not isinstance(pre, Affine):
        return MixingMaps(post.alpha, None, offset)
    row_sum_scale = post.alpha * pre.beta
    if mixing.causal:
        # word t sees the words 0..t in any sentence, so that the row sums are constants
        rows = _to_channels(mixing.row_sums(length), mixing.channels).squeeze(1)
        offset, row_sum_scale = torch.addcmul(offset, row_sum_scale, rows), None
    return MixingMaps(pre.alpha * post.alpha, row_sum_scale, offset)


def apply_maps(
    mixing: nn.Module, mixed: Tensor, maps: MixingMaps, padding_mask: Optional[Tensor]
) -> Tensor:
    """``A x``, T x B x C, to what comes out of the maps.

    Args:
        padding_mask: B x T, True at padding, or None.
    """
    offset = maps.offset.unsqueeze(1)
    if maps.row_sum_scale is not None:
        rows = mixing.row_sums(mixed.size(0), padding_mask)
        rows = _to_channels(rows, mixing.channels)  # T x B x C, or T x 1 x C without padding
        offset = torch.addcmul(offset, maps.row_sum_scale, rows)
    return torch.addcmul(offset, mixed, maps.scale)


def _to_channels(x: Tensor, channels: int) -> Tensor:
    """A number for each group of channels, H x T x B, to one for each channel, T x B x C."""
    x = x.permute(1, 2, 0)
    if x.size(2) == 1:
        return x.expand(-1, -1, channels)
    return x.repeat_interleave(channels // x.size(2), dim=2)
