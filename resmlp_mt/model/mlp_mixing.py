"""Token mixing by an MLP over positions, the paper's ablation of A (MLP-Mixer's token mixing)."""

from typing import Callable, Optional

from torch import Tensor, nn

from resmlp_mt.decoding.history import BeamHistory
from resmlp_mt.errors import UserError
from resmlp_mt.model.padding import zero_padding
from resmlp_mt.model.token_mixing import TokenMixing


class MlpTokenMixing(nn.Module):
    """``y = sum_j A2[j] f(A1[j] x + b1[j]) + b2``, with E matrices over positions in each sum.

    The hidden units stand at positions too, E at each: so "the submatrix for the longest sentence"
    and "triangular" mean for them what they mean for A, and a unit at a padded position is zero.

    Args:
        channels: C.
        positions: N, the longest sentence; every matrix is N x N.
        causal: constrain the matrices to be lower triangular (decoder).
        heads: number of channel groups with matrices of their own.
        expansion: E, hidden units a position (the paper's channel MLP has 4 a channel).
        activation: f.
        bias: learn b1 and b2.
        init_std: standard deviation of the first weights.

    Raises:
        UserError: if E is less than 1 or *heads* does not divide *channels*.
    """

    def __init__(
        self,
        channels: int,
        positions: int,
        causal: bool,
        heads: int = 1,
        expansion: int = 4,
        activation: Callable[[Tensor], Tensor] = nn.functional.gelu,
        bias: bool = True,
        init_std: float = 0.02,
    ):
        super().__init__()
        if expansion < 1:
            raise UserError(f"--token-mixing-expansion {expansion}: must be at least 1")

        def matrices(biases: int) -> nn.ModuleList:
            return nn.ModuleList(
                TokenMixing(channels, positions, causal, heads, j < biases, init_std)
                for j in range(expansion)
            )

        self.first = matrices(expansion if bias else 0)
        self.second = matrices(1 if bias else 0)
        self.activation = activation

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
            padding_mask: B x T, True at padding.

        Returns:
            the shape of *x*.
        """
        y = None
        for first, second in zip(self.first, self.second):
            hidden = self.activation(first(x, history))
            # otherwise a sentence would use more units the longer its neighbours are
            part = second(zero_padding(hidden, padding_mask), history)
            y = part if y is None else y + part
        return y
