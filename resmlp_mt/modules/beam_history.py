"""What word-by-word decoding remembers for the mixing sublayers.

A mixing sublayer needs the input that it saw at each past position and nothing else. Those rows
are written once and never moved: when beam search reorders or drops hypotheses only a small table
of row numbers changes, and it is shared by all layers.
"""

from typing import Dict, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.nn import functional as F

# below so many rows to be summed, looking for those that beams share costs more than it saves
SHARE_FROM = 1024


class Bags(NamedTuple):
    """Which rows each of n sums takes, as ``embedding_bag`` wants it.

    Attributes:
        rows: E; numbers of buffer rows, those of the first sum first.
        positions: E; the position whose input each row is.
        offsets: n; where each sum's entries begin.
    """

    rows: Tensor
    positions: Tensor
    offsets: Tensor


class BeamHistory:
    """Past inputs of every mixing sublayer, for R hypotheses at T positions.

    Attributes:
        index: R x T; row of the buffers that holds hypothesis r's input at position t.
        beam: that many neighbouring hypotheses are of one sentence (1: nothing is known of it).
    """

    def __init__(self) -> None:
        self.index: Optional[Tensor] = None
        self.beam = 1
        self._buffers: Dict[int, Tensor] = {}
        self._rows = 0
        self._bags: Optional[Tuple[Bags, Optional[Bags]]] = None

    def __len__(self) -> int:
        return 0 if self.index is None else self.index.size(1)

    def advance(self, hypotheses: int, device: torch.device) -> None:
        """Begin the next position: give each of R hypotheses a new row."""
        rows = torch.arange(self._rows, self._rows + hypotheses, device=device).unsqueeze(1)
        self.index = rows if self.index is None else torch.cat([self.index, rows], dim=1)
        self._rows += hypotheses
        self._bags = None

    def reorder(self, new_order: Tensor) -> None:
        """Let hypothesis r go on from hypothesis ``new_order[r]``; also drops and repeats rows."""
        if self.index is not None:
            self.index = self.index.index_select(0, new_order)

    def weighted_sum(self, layer: int, x: Tensor, weights: Tensor) -> Tensor:
        """Store the newest inputs of one layer and sum its inputs over each hypothesis's past.

        Args:
            layer: a number that is the layer's own.
            x: R x C.
            weights: H x T, a weight for each position and group of C / H channels.

        Returns:
            R x C.
        """
        past, weights = self._write(layer, x), weights.to(x.dtype)
        if self._bags is None:
            self._bags = self._collect()
        own, shared = self._bags
        y = self._sum(past, weights, own)
        if shared is not None:
            by_sentence = y.view(-1, self.beam, y.size(1))
            by_sentence.add_(self._sum(past, weights, shared).unsqueeze(1))
        return y

    def recent(self, layer: int, x: Tensor, count: int) -> Tensor:
        """Store the newest inputs of one layer and look its last inputs up.

        Args:
            layer: a number that is the layer's own.
            x: R x C.
            count: how many positions, the newest included.

        Returns:
            R x count x C, the oldest first; zero before the first position.
        """
        past = self._write(layer, x)
        rows = self.index[:, -count:]
        newest = past.index_select(0, rows.reshape(-1)).view(*rows.shape, -1)
        return F.pad(newest, (0, 0, count - rows.size(1), 0))

    def _write(self, layer: int, x: Tensor) -> Tensor:
        """Store R x C; returns all rows of that layer so far: what :attr:`index` points into."""
        first = self._rows - x.size(0)
        buffer = self._buffers.get(layer)
        if buffer is None or buffer.size(0) < self._rows:
            # doubling keeps the number of copies logarithmic in the length
            grown = x.new_empty(max(2 * self._rows, 16), x.size(1))
            if buffer is not None:
                grown[:first] = buffer[:first]
            buffer = self._buffers[layer] = grown
        buffer[first : self._rows] = x
        return buffer[: self._rows]

    def _collect(self) -> Tuple[Bags, Optional[Bags]]:
        """The newest position's sums: one for each hypothesis.

        Where beams share words, also one for each sentence, to be added to those of all its beams.
        """
        hypotheses, length = self.index.shape
        positions = torch.arange(length, device=self.index.device)
        # finding what is shared makes a GPU wait for the host, and its gathers are cheap
        if self.beam == 1 or hypotheses * length < SHARE_FROM or self.index.is_cuda:
            offsets = torch.arange(0, hypotheses * length, length, device=self.index.device)
            return Bags(self.index.reshape(-1), positions.repeat(hypotheses), offsets), None
        # beams of a sentence meet in a common ancestor, and before it their rows are the same
        beams = self.index.view(-1, self.beam, length)
        shared = (beams == beams[:, :1]).all(dim=1)  # B x T
        own = ~shared.repeat_interleave(self.beam, dim=0)
        return (
            self._select(own, self.index, positions),
            self._select(shared, beams[:, 0], positions),
        )

    @staticmethod
    def _select(chosen: Tensor, rows: Tensor, positions: Tensor) -> Bags:
        counts = chosen.sum(dim=1)
        return Bags(rows[chosen], positions.expand_as(chosen)[chosen], counts.cumsum(0) - counts)

    @staticmethod
    def _sum(past: Tensor, weights: Tensor, bags: Bags) -> Tensor:
        rows, offsets, heads = bags.rows, bags.offsets, weights.size(0)
        if heads > 1:
            # a row of H groups is H rows of one group
            past = past.view(past.size(0) * heads, -1)
            groups = torch.arange(heads, device=rows.device).unsqueeze(1)
            rows = (rows * heads + groups).view(-1)
            offsets = (offsets + bags.rows.numel() * groups).view(-1)
        y = F.embedding_bag(
            rows,
            past,
            offsets,
            per_sample_weights=weights.index_select(1, bags.positions).view(-1),
            mode="sum",
        )
        if heads > 1:
            y = y.view(heads, -1, y.size(1)).transpose(0, 1).reshape(-1, heads * y.size(1))
        return y
