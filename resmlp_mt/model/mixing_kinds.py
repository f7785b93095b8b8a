"""The choices of ``--token-mixing``: the paper's A, its ablations, relative weights, a gate."""

from typing import Optional

from torch import nn

from resmlp_mt.errors import UserError
from resmlp_mt.model.activation import activation_function
from resmlp_mt.model.convolutional_mixing import (
    ConvTokenMixing,
    DepthwiseConvTokenMixing,
    SeparableConvTokenMixing,
)
from resmlp_mt.model.gated_mixing import GatedTokenMixing
from resmlp_mt.model.mlp_mixing import MlpTokenMixing
from resmlp_mt.model.token_mixing import MATRICES

CONVOLUTIONS = {
    "conv": ConvTokenMixing,
    "depthwise-conv": DepthwiseConvTokenMixing,
    "separable-conv": SeparableConvTokenMixing,
}
OF_POSITIONS = (*MATRICES, "gated", "mlp")  # with an A each, or several
TOKEN_MIXING = (*OF_POSITIONS, "none", *CONVOLUTIONS)


def build_token_mixing(cfg, channels: int, positions: int, causal: bool) -> Optional[nn.Module]:
    """The sublayer that ``cfg.token_mixing`` names, or None for ``none``.

    Raises:
        UserError: for an option that this kind does not have.
    """
    kind, heads = str(cfg.token_mixing), cfg.token_mixing_heads
    common = dict(bias=not cfg.no_token_mixing_bias, init_std=cfg.token_mixing_init_std)
    if kind in MATRICES:
        return MATRICES[kind](channels, positions, causal, heads=heads, **common)
    activation = activation_function(str(cfg.activation_fn))
    if kind == "gated":
        return GatedTokenMixing(
            channels, positions, causal, heads=heads, activation=activation, **common
        )
    if kind == "mlp":
        return MlpTokenMixing(
            channels,
            positions,
            causal,
            heads=heads,
            expansion=cfg.token_mixing_expansion,
            activation=activation,
            **common,
        )
    if heads != 1:
        raise UserError(
            f"--token-mixing-heads {heads}: --token-mixing {kind} has no heads: leave it off"
        )
    if kind == "none":
        return None
    return CONVOLUTIONS[kind](
        channels, positions, causal, kernel_size=cfg.token_mixing_kernel_size, **common
    )
