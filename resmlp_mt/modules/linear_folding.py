"""How one affine map is absorbed by one linear map beside it, in float64 whatever the dtype."""

from copy import deepcopy
from typing import Optional

import torch
from torch import Tensor, nn

from resmlp_mt.modules.affine import Affine
from resmlp_mt.modules.beam_history import BeamHistory
from resmlp_mt.modules.mixing_maps import MixingMaps, apply_maps, mixing_maps


@torch.no_grad()
def fold_before_(linear: nn.Linear, affine: Affine) -> None:
    """``W (alpha x + beta) + b``: the linear layer takes the affine map before it."""
    weight = linear.weight.double()
    bias = weight @ affine.beta.double()
    if linear.bias is not None:
        bias = bias + linear.bias.double()
    # new parameters, not changed ones: the old may be shared
    linear.weight = nn.Parameter((weight * affine.alpha.double()).to(linear.weight.dtype))
    linear.bias = nn.Parameter(bias.to(linear.weight.dtype))


@torch.no_grad()
def fold_after_(linear: nn.Linear, affine: Affine) -> None:
    """``alpha (W x + b) + beta``: the linear layer takes the affine map after it."""
    bias = affine.beta.double()
    if linear.bias is not None:
        bias = bias + affine.alpha.double() * linear.bias.double()
    weight = affine.alpha.double().unsqueeze(1) * linear.weight.double()
    linear.weight = nn.Parameter(weight.to(linear.weight.dtype))
    linear.bias = nn.Parameter(bias.to(linear.weight.dtype))


class FoldedTokenMixing(nn.Module):
    """Token mixing with both of its affine maps, precomputed by :mod:`.mixing_maps`.

    Args:
        mixing: the sublayer whose A is used (passed again at each call, so that it stays one
            module with one name); one that commutes with maps of the channels.
        pre: the map before it; if it is not affine it stays where it is.
        post: the affine map after it.
    """

    @torch.no_grad()
    def __init__(self, mixing: nn.Module, pre: Optional[nn.Module], post: Affine):
        super().__init__()
        exact = [deepcopy(module).double() for module in (mixing, pre, post) if module is not None]
        if pre is None:
            exact.insert(1, None)
        maps = mixing_maps(*exact, length=mixing.positions)
        for name, value in maps._asdict().items():
            if value is not None:
                value = value.to(post.alpha.dtype).contiguous()
            self.register_buffer(name, value)

    def forward(
        self,
        x: Tensor,
        mixing: nn.Module,
        padding_mask: Optional[Tensor],
        history: Optional[BeamHistory],
    ) -> Tensor:
        """T x B x C to T x B x C; the arguments are those of ``TokenMixingBranch.forward``."""
        first = 0 if history is None else len(history) - 1
        offset = self.offset[first : first + x.size(0)]
        maps = MixingMaps(self.scale, self.row_sum_scale, offset)
        return apply_maps(mixing, mixing.mix(x, history), maps, padding_mask)
