"""What it takes to mix positions, by kind: the part of the count in which the models differ."""

from dataclasses import dataclass
from typing import Optional

from resmlp_mt.modules.token_mixing import MATRICES

SELF_ATTENTION = "self-attention"


@dataclass(frozen=True)
class MixingWork:
    """One layer's, of d channels, for one position out of the t that it sees.

    Attributes:
        projections: multiply-adds and weights in units of d².
        each: multiply-adds a seen position and channel.
        moved: numbers a seen position and channel that a decoding step reads and writes.
        held: numbers a seen position and channel that decoding remembers.
        reach: positions seen at most; None sees all.
    """

    projections: int
    each: int
    moved: int
    held: int
    reach: Optional[int] = None

    def past(self, position: int) -> int:
        """How many positions the one at *position* sees, itself among them."""
        return position if self.reach is None else min(position, self.reach)

    def multiply_adds(self, channels: int, position: int) -> int:
        return self.projections * channels**2 + self.each * self.past(position) * channels


def work_of(mixing: str, kernel_size: int, expansion: int) -> MixingWork:
    """
    Args:
        mixing: :data:`SELF_ATTENTION` or a kind of ``--token-mixing``.
        kernel_size: K of the convolutions.
        expansion: E of ``mlp``.

    Returns:
        - self-attention: query, key, value and output projections ``4 d²``, scores and weighted
          sum ``2 t d``. fairseq keeps 2 t d numbers and moves them when beams move: read and
          written for the new order, read for the attention, ``6 t d``;
        - ``linear``, ``toeplitz``: a row of A, ``t d``, whose inputs are read in place;
        - ``mlp``: E rows into the hidden units and E out of them, ``2 E t d``, with inputs and
          hidden units to remember;
        - ``conv``: ``K d²``; ``depthwise-conv``: ``K d``; ``separable-conv``: ``K d + d²``; each
          remembers K inputs;
        - ``none``: nothing.
    """
    if mixing in MATRICES:
        return MixingWork(0, 1, 1, 1)
    return {
        SELF_ATTENTION: MixingWork(4, 2, 6, 2),
        "none": MixingWork(0, 0, 0, 0),
        "mlp": MixingWork(0, 2 * expansion, 1 + expansion, 1 + expansion),
        "conv": MixingWork(kernel_size, 0, 1, 1, kernel_size),
        "depthwise-conv": MixingWork(0, 1, 1, 1, kernel_size),
        "separable-conv": MixingWork(1, 1, 1, 1, kernel_size),
    }[mixing]
