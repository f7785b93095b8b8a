"""What word-by-word decoding remembers for the mixing sublayers: their inputs at past positions.

An input is written once and never moved. When beam search reorders or drops hypotheses, only a
small table of row numbers changes, which all layers share.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# with fewer rows to sum, looking for those that beams share costs more than it saves
SHARE_FROM = 1024
# positions there is room for at first; the room doubles when it is full
BUCKET = 32


class Bags(NamedTuple):
    """The rows that each of n sums takes, in the form ``embedding_bag`` reads."""

    rows: Tensor  # E; numbers of buffer rows, those of the first sum first
    positions: Tensor  # E; the position whose input each row holds
    offsets: Tensor  # n; where the entries of each sum begin


class BeamHistory:
    """Past inputs of every mixing sublayer, for R hypotheses.

    Attributes:
        index: R x room; the buffer row with each hypothesis's input at each position. Positions
            still to come point to row 0, which is zero.
        beam: how many neighbouring rows belong to one sentence; 1 if unknown.
    """

    def __init__(self) -> None:
        self.beam = 1
        self.index: Optional[Tensor] = None
        self._length = 0
        self._rows = 1  # written so far, row 0 included
        self._capacity = 0  # rows of each buffer
        self._buffers: Dict[int, Tensor] = {}  # by sublayer, capacity x C
        self._matrices: Dict[int, Tuple[Tensor, ...]] = {}  # rows of A by sublayer, H x room each
        self._bags: Optional[List[Bags]] = None  # of the newest position
        self._layout: Optional[Tuple[torch.Size, Tensor, Tensor]] = None

    def __len__(self) -> int:
        """How many positions have begun."""
        return self._length

    @property
    def position(self) -> int:
        """The newest position, counted from 0."""
        return self._length - 1

    @property
    def launch_bound(self) -> bool:
        """Whether an operation costs a launch and reading a value a wait, as on a GPU: sums then
        run over all positions there is room for, and nothing is read on the host."""
        return self.index.device.type != "cpu"

    def advance(self, hypotheses: int, limit: int, device: torch.device) -> None:
        """Begin the next of at most *limit* positions: a new row for each of R hypotheses."""
        if self.index is None:
            self.index = torch.zeros(hypotheses, 0, dtype=torch.long, device=device)
        room = self.index.size(1)
        if self._length == room:
            room = min(max(BUCKET, 2 * room), limit)
            self.index = F.pad(self.index, (0, room - self._length))
            self._matrices = {}
        self._reserve(self._rows + (room - self._length) * hypotheses)
        rows = torch.arange(self._rows, self._rows + hypotheses, device=device)
        self.index[:, self._length] = rows
        self._length += 1
        self._rows += hypotheses
        self._bags = None

    def reorder(self, new_order: Tensor) -> None:
        """Let hypothesis r continue hypothesis ``new_order[r]``; also drops and repeats rows."""
        if self.index is not None:
            self.index = self.index.index_select(0, new_order)

    def weighted_sum(self, mixing: nn.Module, x: Tensor) -> Tensor:
        """Store a sublayer's newest inputs, R x C, and sum its inputs over each hypothesis's past,
        weighted by the newest row of its ``matrix(length)``, H x T x T: R x C."""
        past = self._write(id(mixing), x)
        if self._bags is None:
            self._bags = self._collect()
        if id(mixing) not in self._matrices:
            self._matrices[id(mixing)] = mixing.matrix(self.index.size(1)).unbind(1)
        row = self._matrices[id(mixing)][self.position]
        y, *shared = (self._sum(past, row, bags) for bags in self._bags)
        for sums in shared:
            y.view(-1, self.beam, y.size(1)).add_(sums.unsqueeze(1))
        return y

    def recent(self, layer: int, x: Tensor, count: int) -> Tensor:
        """Store a layer's newest inputs, R x C, and look up its last *count*: R x count x C, the
        oldest first, zero before the first position."""
        past = self._write(layer, x)
        rows = self.index[:, max(0, self._length - count) : self._length]
        rows = F.pad(rows, (count - rows.size(1), 0))
        return past.index_select(0, rows.reshape(-1)).view(*rows.shape, -1)

    def inside(self, count: int) -> Tensor:
        """Which of the last *count* positions, the newest included, are in the sentence."""
        return torch.arange(count, device=self.index.device) >= count - self._length

    def _reserve(self, rows: int) -> None:
        """Make room for that many rows in every buffer."""
        if rows <= self._capacity:
            return
        self._capacity = rows
        for layer, old in self._buffers.items():
            buffer = self._buffers[layer] = old.new_empty(rows, old.size(1))
            buffer[: self._rows] = old[: self._rows]

    def _write(self, layer: int, x: Tensor) -> Tensor:
        """Store R x C; returns all rows of that layer: what :attr:`index` points into."""
        buffer = self._buffers.get(layer)
        if buffer is None:
            buffer = self._buffers[layer] = x.new_empty(self._capacity, x.size(1))
            buffer[0] = 0
        buffer[self._rows - len(x) : self._rows] = x
        return buffer

    def _collect(self) -> List[Bags]:
        """The newest position's sums: one for each hypothesis and, where beams share words, one for
        each sentence, to be added to those of its beams."""
        index = self.index if self.launch_bound else self.index[:, : self._length]
        hypotheses, width = index.shape
        if self.launch_bound or self.beam == 1 or index.numel() < SHARE_FROM:
            if self._layout is None or self._layout[0] != index.shape:
                positions = torch.arange(width, device=index.device).repeat(hypotheses)
                offsets = torch.arange(0, hypotheses * width, width, device=index.device)
                self._layout = index.shape, positions, offsets
            return [Bags(index.reshape(-1), *self._layout[1:])]
        # beams of a sentence have a common ancestor, and up to it their rows are the same
        beams = index.view(-1, self.beam, width)
        shared = (beams == beams[:, :1]).all(dim=1)  # B x T
        own = ~shared.repeat_interleave(self.beam, dim=0)
        return [_select(own, index), _select(shared, beams[:, 0])]

    @staticmethod
    def _sum(past: Tensor, row: Tensor, bags: Bags) -> Tensor:
        """The sums of *bags*, n x C, weighted by *row*, H x room."""
        rows, offsets, heads = bags.rows, bags.offsets, len(row)
        weights = row.index_select(1, bags.positions).view(-1)
        if weights.dtype != past.dtype:  # under autocast
            weights = weights.to(past.dtype)
        if heads > 1:
            # a row of H groups is H rows of one group
            past = past.view(past.size(0) * heads, -1)
            groups = torch.arange(heads, device=rows.device).unsqueeze(1)
            rows = (rows * heads + groups).view(-1)
            offsets = (offsets + bags.rows.numel() * groups).view(-1)
        y = F.embedding_bag(rows, past, offsets, per_sample_weights=weights, mode="sum")
        if heads > 1:
            y = y.view(heads, -1, y.size(1)).transpose(0, 1).reshape(-1, heads * y.size(1))
        return y


def _select(chosen: Tensor, rows: Tensor) -> Bags:
    """The bags of those of the n x T *rows* that are *chosen*."""
    counts = chosen.sum(dim=1)
    positions = torch.arange(chosen.size(1), device=chosen.device).expand_as(chosen)[chosen]
    return Bags(rows[chosen], positions, counts.cumsum(0) - counts)
