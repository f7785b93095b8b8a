"""Token mixings, which replace the self-attention of a Transformer.

``mixing(x, padding_mask, history)`` maps states T x B x C to states of the same shape. x is zero
where *padding_mask*, B x T, is True. No output depends on padding or, if *causal* (in the decoder),
on a later position. In step-by-step decoding x is the newest position of R hypotheses, R x C, and
*history*, a :class:`BeamHistory`, has their earlier inputs.

A mixing of your own: docs/options.md.
"""

from collections.abc import Callable
from functools import partial

import torch
from fairseq import utils
from torch import Tensor, nn
from torch.nn import functional as F

from resmlp_mt.model.memory import BeamHistory
from resmlp_mt.model.padding import zero_padding
from resmlp_mt_runtime.errors import UserError

TOKEN_MIXING: dict[str, type[nn.Module]] = {}


def register_mixing(name: str, cls: type[nn.Module] | None = None):
    """Make *cls* a choice of ``--token-mixing``; without *cls*, a decorator for a class. A
    model calls ``cls(cfg, channels, positions, causal)``. Raises a UserError if another class has
    the name."""
    if cls is None:
        return partial(register_mixing, name)
    if name == "none" or str(TOKEN_MIXING.get(name, cls)) != str(cls):
        raise UserError(f"register_mixing: there is another {name} already: choose another name")
    TOKEN_MIXING[name] = cls  # a cell of a notebook that runs again makes the same class anew
    return cls


@register_mixing("linear")
class TokenMixing(nn.Module):
    """``y[t] = sum_s A[t, s] x[s] + b[t]``, the linear layer over positions of eq. 2.

    A is N x N for N *positions*, the longest sentence, and lower triangular if *causal*; a batch
    uses its top left submatrix. With H > 1 heads, each group of C / H neighbouring channels has a
    matrix of its own (H = 1 is the paper's model).
    """

    has_heads = True

    def __init__(self, cfg, channels: int, positions: int, causal: bool):
        super().__init__()
        heads = cfg.token_mixing_heads
        if not isinstance(heads, int) or heads < 1 or channels % heads:
            raise UserError(f"--token-mixing-heads {heads}: it must divide the {channels} channels")
        self.channels, self.positions, self.causal, self.heads = channels, positions, causal, heads
        self.weight = nn.Parameter(torch.empty(self.weight_shape()))
        self.bias = None
        if not cfg.no_token_mixing_bias:
            self.bias = nn.Parameter(torch.zeros(heads, positions))
        nn.init.normal_(self.weight, std=cfg.token_mixing_init_std)
        if causal and self.weight.shape[1:] == (positions, positions):
            # no position uses these weights: the saved matrix is the one that is applied
            self.weight.data.tril_()

    def weight_shape(self) -> tuple[int, ...]:
        """Of the trained weights, H first."""
        return self.heads, self.positions, self.positions

    def matrix(self, length: int) -> Tensor:
        """A for sentences of *length* tokens, H x T x T."""
        if not self.causal:
            return self.weight[:, :length, :length]
        # masked at every use, so that no optimizer can undo it; a GPU's matrix units need rows
        # that begin at multiples of 8 numbers
        width = -(-length // 8) * 8
        return self.weight[:, :length, :width].tril()[:, :, :length]

    def forward(
        self, x: Tensor, padding_mask: Tensor | None = None, history: BeamHistory | None = None
    ) -> Tensor:
        """``A x + b``, T x B x C or R x C."""
        y = self.mix(x, padding_mask, history)
        if self.bias is None:
            return y
        if history is None:
            bias = self.bias[:, : len(x)].t().unsqueeze(1)  # T x 1 x H
        else:
            bias = self.bias[:, history.position]  # H
        return (y.view(*x.shape[:-1], self.heads, -1) + bias.unsqueeze(-1)).view(x.shape)

    def mix(
        self, x: Tensor, padding_mask: Tensor | None = None, history: BeamHistory | None = None
    ) -> Tensor:
        """``A x`` alone; shapes as in :meth:`forward`. *padding_mask* is for subclasses: here x is
        zero at padding."""
        if history is not None:
            return history.weighted_sum(x, self.matrix)
        length, batch, channels = x.shape
        a = self.matrix(length)
        if self.heads == 1:
            # T x B x C is T x (B C): one product, no transpose
            return (a[0] @ x.reshape(length, batch * channels)).view(length, batch, channels)
        grouped = x.reshape(length, batch, self.heads, -1).permute(2, 0, 1, 3)
        mixed = a @ grouped.reshape(self.heads, length, -1)
        mixed = mixed.view(self.heads, length, batch, -1).permute(1, 2, 0, 3)
        return mixed.reshape(length, batch, channels)


@register_mixing("toeplitz")
class ToeplitzTokenMixing(TokenMixing):
    """A whose entries depend on the distance alone: ``A[t, s] = w[t - s]``.

    The paper notes that the rows of a trained A look like shifted copies of each other. Here they
    are such copies, with 2N - 1 weights per head in the encoder and N in the decoder, not N².
    """

    def weight_shape(self) -> tuple[int, ...]:
        return self.heads, self.positions if self.causal else 2 * self.positions - 1

    def by_distance(self, length: int) -> Tensor:
        """w for the distances 1 - T to T - 1, H x (2 T - 1), where T is *length*."""
        if self.causal:
            return F.pad(self.weight[:, :length], (length - 1, 0))
        centre = self.positions - 1
        return self.weight[:, centre - length + 1 : centre + length]

    def matrix(self, length: int) -> Tensor:
        # w[d] is at T - 1 + d; of the reversed w, row t is a window that begins at w[t]
        return self.by_distance(length).flip(-1).unfold(-1, length, 1).flip(-2)


def activation_function(name: str) -> Callable[[Tensor], Tensor]:
    """fairseq's function of that name. ``gelu`` is PyTorch's, which keeps the states' type."""
    return F.gelu if name == "gelu" else utils.get_activation_fn(name)


@register_mixing("gated")
class GatedTokenMixing(nn.Module):
    """``y = W_o ((A (W_v x) + b) * f(W_g x))``: f is --activation-fn, W are C x C, with
    biases unless --no-token-mixing-bias.

    By itself A mixes by position, whatever the tokens are. The gate multiplies the result, channel
    by channel, as in the spatial gating unit of gMLP (Liu et al., 2021), here with a Toeplitz A.
    """

    has_heads = True

    def __init__(self, cfg, channels: int, positions: int, causal: bool):
        super().__init__()
        bias = not cfg.no_token_mixing_bias
        # W_v and W_g, stacked: one product
        self.value_gate = nn.Linear(channels, 2 * channels, bias=bias)
        self.toeplitz = ToeplitzTokenMixing(cfg, channels, positions, causal)
        self.output = nn.Linear(channels, channels, bias=bias)
        self.activation = activation_function(str(cfg.activation_fn))
        for weight in (*self.value_gate.weight.chunk(2), self.output.weight):
            nn.init.xavier_uniform_(weight)
        if bias:
            nn.init.zeros_(self.value_gate.bias)
            nn.init.zeros_(self.output.bias)

    def forward(
        self, x: Tensor, padding_mask: Tensor | None = None, history: BeamHistory | None = None
    ) -> Tensor:
        """Shapes as of :class:`TokenMixing`; *history* stores the values W_v x."""
        value, gate = self.value_gate(x).chunk(2, dim=-1)
        # padding is no longer zero: the bias of W_v is added
        value = zero_padding(value, padding_mask)
        return self.output(self.toeplitz(value, padding_mask, history) * self.activation(gate))
