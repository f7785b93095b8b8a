"""Token mixing under a gate: weights over positions, times a function of the word that reads them.

A alone mixes by position, whatever the words are. The gate multiplies its result channel by
channel, as in the spatial gating unit of gMLP (Liu et al., 2021), here with a Toeplitz A.
"""

from torch import Tensor, nn

from resmlp_mt.model.affine import Affine
from resmlp_mt.model.branches import activation_function
from resmlp_mt.model.folding import after, before, with_parts
from resmlp_mt.model.padding import zero_padding
from resmlp_mt.model.token_mixing import ToeplitzTokenMixing


class GatedTokenMixing(nn.Module):
    """``y = W_o ((A (W_v x) + b) * f(W_g x))``: W are C x C with a bias, f is --activation-fn."""

    has_heads = True

    def __init__(self, cfg, channels: int, positions: int, causal: bool):
        super().__init__()
        bias = not cfg.no_token_mixing_bias
        # W_v above W_g: one product
        self.value_gate = nn.Linear(channels, 2 * channels, bias=bias)
        self.toeplitz = ToeplitzTokenMixing(cfg, channels, positions, causal)
        self.output = nn.Linear(channels, channels, bias=bias)
        self.activation = activation_function(str(cfg.activation_fn))
        for weight in (*self.value_gate.weight.chunk(2), self.output.weight):
            nn.init.xavier_uniform_(weight)
        if bias:
            nn.init.zeros_(self.value_gate.bias)
            nn.init.zeros_(self.output.bias)

    def forward(self, x: Tensor, history=None, padding_mask=None) -> Tensor:
        """Arguments as of :meth:`TokenMixing.forward`; *history* keeps the values W_v x."""
        value, gate = self.value_gate(x).chunk(2, dim=-1)
        # the bias of W_v would reach every position
        value = zero_padding(value, padding_mask)
        return self.output(self.toeplitz(value, history) * self.activation(gate))

    def folded(self, pre: Affine | None, post: Affine) -> nn.Module:
        """The map before goes into W_v and W_g, the map after into W_o."""
        value_gate = self.value_gate if pre is None else before(pre, self.value_gate)
        return with_parts(self, value_gate=value_gate, output=after(self.output, post))
