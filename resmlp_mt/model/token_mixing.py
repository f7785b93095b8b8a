"""The sublayer that replaces self-attention: one learned matrix over positions.

``A`` is square in the encoder and lower triangular in the decoder; a batch uses its top left
submatrix. With more than one head, each group of C / H neighbouring channels has a matrix of its
own (H = 1 is the paper's model).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resmlp_mt.errors import UserError
from resmlp_mt.model.affine import Affine
from resmlp_mt.model.folding import FoldedTokenMixing
from resmlp_mt.model.memory import BeamHistory


class TokenMixing(nn.Module):
    """``y[t] = sum_s A[t, s] x[s] + b[t]``, the linear layer over positions of eq. 2.

    A is N x N for N *positions*, the longest sentence; lower triangular if *causal* (decoder).
    """

    has_heads = True

    def __init__(self, cfg, channels: int, positions: int, causal: bool):
        super().__init__()
        heads = cfg.token_mixing_heads
        if not isinstance(heads, int) or heads < 1 or channels % heads:
            raise UserError(
                f"--token-mixing-heads {heads} does not divide the {channels} channels: "
                "choose a divisor"
            )
        self.channels, self.positions, self.causal, self.heads = channels, positions, causal, heads
        self.weight = nn.Parameter(torch.empty(self.weight_shape()))
        self.bias = None
        if not cfg.no_token_mixing_bias:
            self.bias = nn.Parameter(torch.zeros(heads, positions))
        nn.init.normal_(self.weight, std=cfg.token_mixing_init_std)
        if causal:
            self.mask_future_()

    def weight_shape(self) -> tuple:
        return self.heads, self.positions, self.positions

    @torch.no_grad()
    def mask_future_(self) -> None:
        """Zero the weights that no position uses, so that a saved matrix is what is computed."""
        self.weight.tril_()

    def matrix(self, length: int) -> Tensor:
        """A for sentences of *length* tokens, H x T x T."""
        if not self.causal:
            return self.weight[:, :length, :length]
        # masked at every use, so that no optimizer can undo it; a GPU's matrix units need rows
        # that begin at multiples of 8 numbers
        width = -(-length // 8) * 8
        return self.weight[:, :length, :width].tril()[:, :, :length]

    def forward(self, x: Tensor, history=None, padding_mask=None) -> Tensor:
        """``A x + b``. x is T x B x C, zero where *padding_mask*, B x T, is True. In word-by-word
        decoding there is a *history*, and x is the newest position, R x C."""
        y = self.mix(x, history)
        if self.bias is None:
            return y
        if history is None:
            bias = self.bias[:, : len(x)].t().unsqueeze(1)  # T x 1 x H
        else:
            bias = self.bias[:, history.position]  # H
        by_head = y.view(*x.shape[:-1], self.heads, -1) + bias.unsqueeze(-1)
        return by_head.view(x.shape)

    def mix(self, x: Tensor, history: BeamHistory | None = None) -> Tensor:
        """``A x`` alone; arguments as in :meth:`forward`."""
        if history is not None:
            return history.weighted_sum(self, x)
        length, batch, channels = x.shape
        a = self.matrix(length)
        if self.heads == 1:
            # T x B x C is T x (B C): one product, no transpose
            return (a[0] @ x.reshape(length, batch * channels)).view(length, batch, channels)
        grouped = x.reshape(length, batch, self.heads, -1).permute(2, 0, 1, 3)
        mixed = a @ grouped.reshape(self.heads, length, -1)
        mixed = mixed.view(self.heads, length, batch, -1).permute(1, 2, 0, 3)
        return mixed.reshape(length, batch, channels)

    def folded(self, pre: Affine | None, post: Affine) -> nn.Module:
        """``post(A pre(x) + b)``, with the maps absorbed; *pre* is None if it stays outside."""
        return FoldedTokenMixing(self, pre, post)


class ToeplitzTokenMixing(TokenMixing):
    """A whose entries depend on the distance alone: ``A[t, s] = w[t - s]``.

    The paper notes that the rows of a trained A look like shifted copies of each other. Here they
    are, with 2N - 1 weights a head in the encoder and N in the decoder instead of N².
    """

    def weight_shape(self) -> tuple:
        return self.heads, self.positions if self.causal else 2 * self.positions - 1

    def mask_future_(self) -> None:
        """The decoder has no weights for positions to the right."""

    def matrix(self, length: int) -> Tensor:
        if self.causal:
            w = F.pad(self.weight[:, :length], (length - 1, 0))
        else:
            centre = self.positions - 1
            w = self.weight[:, centre - length + 1 : centre + length]
        # w holds distances 1 - T .. T - 1; row t reads w[t], w[t - 1], ... counted from T - 1
        return w.flip(-1).unfold(-1, length, 1).flip(-2)
