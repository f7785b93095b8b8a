"""Token mixing under a gate: fixed weights over positions, and a look at the word that is written.

A decides by position alone what it passes on. Here the word at the position multiplies it, channel
by channel, as in the spatial gating unit of gMLP (Liu et al., 2021) with a Toeplitz A.
"""

from typing import Callable, Optional

from torch import Tensor, nn

from resmlp_mt.decoding.history import BeamHistory
from resmlp_mt.model.padding import zero_padding
from resmlp_mt.model.token_mixing import ToeplitzTokenMixing


class GatedTokenMixing(nn.Module):
    """``y = W_o ((A (W_v x) + b) * f(W_g x))``.

    W_v, W_g and W_o are C x C with a bias each. A and b are those of :class:`ToeplitzTokenMixing`.

    Args:
        channels: C.
        positions: N, the longest sentence.
        causal: A is lower triangular (decoder).
        heads: number of channel groups with an A each.
        activation: f.
        bias: learn b and the biases of the three maps.
        init_std: standard deviation of the first weights of A.

    Raises:
        UserError: if *heads* does not divide *channels*.
    """

    def __init__(
        self,
        channels: int,
        positions: int,
        causal: bool,
        heads: int = 1,
        activation: Callable[[Tensor], Tensor] = nn.functional.gelu,
        bias: bool = True,
        init_std: float = 0.02,
    ):
        super().__init__()
        # W_v above W_g: one product
        self.value_gate = nn.Linear(channels, 2 * channels, bias=bias)
        self.toeplitz = ToeplitzTokenMixing(channels, positions, causal, heads, bias, init_std)
        self.output = nn.Linear(channels, channels, bias=bias)
        self.activation = activation
        for weight in (*self.value_gate.weight.chunk(2), self.output.weight):
            nn.init.xavier_uniform_(weight)
        if bias:
            nn.init.zeros_(self.value_gate.bias)
            nn.init.zeros_(self.output.bias)

    def forward(
        self,
        x: Tensor,
        history: Optional[BeamHistory] = None,
        padding_mask: Optional[Tensor] = None,
    ) -> Tensor:
        """
        Args:
            x: T x B x C; with *history* R x C, the newest position only.
            history: the past of word-by-word decoding, begun for this position. It keeps the
                values W_v x. The gate reads the newest position alone.
            padding_mask: B x T, True at padding, or None if there is none.

        Returns:
            the shape of *x*.
        """
        value, gate = self.value_gate(x).chunk(2, dim=-1)
        # the bias of W_v would reach every position
        value = zero_padding(value, padding_mask)
        return self.output(self.toeplitz(value, history) * self.activation(gate))
