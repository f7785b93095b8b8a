"""Token mixing by convolution over positions, the paper's ablations of A.

Each has K taps: centred on the position in the encoder, the newest K in the decoder. Positions
outside the sentence count as zero. Layout T x B x C, as everywhere.
"""

from abc import ABC, abstractmethod
from typing import Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resmlp_mt.decoding.history import BeamHistory
from resmlp_mt.errors import UserError


class Taps(nn.Module, ABC):
    """What the convolutions share: which K positions each position reads.

    Args:
        channels: C.
        positions: N, the longest sentence (no weight depends on it).
        causal: read the newest K positions, not those around (decoder).
        kernel_size: K.
        bias: learn a bias.
        init_std: standard deviation of the taps' first weights.

    Raises:
        UserError: if K is less than 1, or even, which has no centre.
    """

    def __init__(
        self,
        channels: int,
        positions: int,
        causal: bool,
        kernel_size: int = 3,
        bias: bool = True,
        init_std: float = 0.02,
    ):
        super().__init__()
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise UserError(
                f"--token-mixing-kernel-size {kernel_size}: must be odd, to have a centre: "
                "choose 1, 3, 5 ..."
            )
        self.channels, self.positions, self.causal = channels, positions, causal
        self.kernel_size = kernel_size
        self.add_weights(bias, init_std)

    @abstractmethod
    def add_weights(self, bias: bool, init_std: float) -> None:
        """Make the parameters; arguments as of the class."""

    def window(self, x: Tensor) -> Tensor:
        """T x B x C to T x B x K x C: what each position reads, the leftmost first."""
        reach = self.kernel_size - 1
        left = reach if self.causal else reach // 2
        padded = F.pad(x, (0, 0, 0, 0, left, reach - left))
        return padded.unfold(0, self.kernel_size, 1).transpose(2, 3)

    def read(self, x: Tensor, history: Optional[BeamHistory]) -> Tensor:
        """:meth:`window`, or, in word-by-word decoding, R x C to R x K x C out of *history*."""
        if history is None:
            return self.window(x)
        return history.recent(id(self), x, self.kernel_size)

    def extra_repr(self) -> str:
        return f"channels={self.channels}, kernel_size={self.kernel_size}, causal={self.causal}"


class DepthwiseConvTokenMixing(Taps):
    """``y[t, c] = sum_k w[c, k] x[t + k, c] + b[c]``: a band of K weights for each channel.

    It is token mixing with C heads and a Toeplitz A that is zero but for K diagonals, and like A it
    commutes with maps of the channels.
    """

    def add_weights(self, bias: bool, init_std: float) -> None:
        self.heads = self.channels
        self.weight = nn.Parameter(torch.empty(self.channels, self.kernel_size))
        self.bias = nn.Parameter(torch.zeros(self.channels)) if bias else None
        nn.init.normal_(self.weight, std=init_std)

    def matrix(self, length: int) -> Tensor:
        """The A of each channel for sentences of *length* tokens, C x T x T."""
        eye = torch.eye(length, dtype=self.weight.dtype, device=self.weight.device)
        return torch.einsum("tsk,ck->cts", self.window(eye.unsqueeze(-1)).squeeze(-1), self.weight)

    def mix(self, x: Tensor, history: Optional[BeamHistory] = None) -> Tensor:
        """The convolution without its bias; arguments as in :meth:`forward`."""
        return torch.einsum("...kc,ck->...c", self.read(x, history), self.weight)

    def forward(
        self,
        x: Tensor,
        history: Optional[BeamHistory] = None,
        padding_mask: Optional[Tensor] = None,
    ) -> Tensor:
        """
        Args:
            x: T x B x C, zero wherever there is padding; with *history* R x C, the newest position
                only.
            history: the past of word-by-word decoding, begun for this position.
            padding_mask: not needed: *x* is zero there.

        Returns:
            the shape of *x*.
        """
        y = self.mix(x, history)
        return y if self.bias is None else y + self.bias


class ConvTokenMixing(Taps):
    """``y[t] = sum_k W[k] x[t + k] + b``: a full convolution, which mixes the channels too."""

    def add_weights(self, bias: bool, init_std: float) -> None:
        # C x (K C): one product over the joined channels of all taps
        self.taps = nn.Linear(self.kernel_size * self.channels, self.channels, bias=bias)
        nn.init.normal_(self.taps.weight, std=init_std)
        if bias:
            nn.init.zeros_(self.taps.bias)

    def forward(
        self,
        x: Tensor,
        history: Optional[BeamHistory] = None,
        padding_mask: Optional[Tensor] = None,
    ) -> Tensor:
        """Arguments as of :class:`DepthwiseConvTokenMixing`."""
        return self.taps(self.read(x, history).flatten(-2))


class SeparableConvTokenMixing(Taps):
    """A depthwise convolution, then a map of the channels: ``y[t] = W (depthwise x)[t] + b``."""

    def add_weights(self, bias: bool, init_std: float) -> None:
        self.depthwise = DepthwiseConvTokenMixing(
            self.channels, self.positions, self.causal, self.kernel_size, False, init_std
        )
        self.pointwise = nn.Linear(self.channels, self.channels, bias=bias)
        nn.init.xavier_uniform_(self.pointwise.weight)
        if bias:
            nn.init.zeros_(self.pointwise.bias)

    def forward(
        self,
        x: Tensor,
        history: Optional[BeamHistory] = None,
        padding_mask: Optional[Tensor] = None,
    ) -> Tensor:
        """Arguments as of :class:`DepthwiseConvTokenMixing`."""
        return self.pointwise(self.depthwise(x, history))
