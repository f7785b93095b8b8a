"""What word-by-word decoding remembers for the mixing sublayers.

A mixing sublayer needs the input that it saw at each past position and nothing else. Those rows
are written once and never moved: when beam search reorders or drops hypotheses only a small table
of row numbers changes, and it is shared by all layers.

The table and the buffers grow at each word on a CPU, where a shorter sum is less work. Where an
operation costs a launch and a value a wait, on a GPU, they are made for many positions ahead, and
a step then has the same shapes and the same memory whatever its position.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# below so many rows to be summed, looking for those that beams share costs more than it saves
SHARE_FROM = 1024
# positions that a history of constant shape is made for at first; it doubles when they are used up
BUCKET = 32


class Bags(NamedTuple):
    """Which rows each of n sums takes, as ``embedding_bag`` takes it.

    Attributes:
        rows: E; numbers of buffer rows, those of the first sum first.
        positions: E; the position whose input each row is.
        offsets: n; where each sum's entries begin.
    """

    rows: Tensor
    positions: Tensor
    offsets: Tensor


class BeamHistory:
    """Past inputs of every mixing sublayer, for R hypotheses.

    A step is :meth:`make_room`, which is work of the host and may change shapes, and then
    :meth:`advance` and what the layers do, which is work on tensors alone.

    Attributes:
        constant: keep every shape for as long as there is room, and read no value on the host.
            None, before the first position: for all devices but the CPU.
        position: one number, int64; the newest position t.
        index: R x W; row of the buffers that holds hypothesis r's input at a position. There is
            room for W positions, t < W. W = t + 1 if the history is not *constant*. Row 0, which is
            zero, stands at positions after the newest.
        beam: how many neighbouring rows belong to one sentence; 1 if that is not known.
    """

    def __init__(self) -> None:
        self.constant: Optional[bool] = None
        self.beam = 1
        self.position: Optional[Tensor] = None
        self.index: Optional[Tensor] = None
        self._newest: Optional[Tensor] = None  # R; the rows of the newest position
        self._length = 0
        self._rows = 1  # written, row 0 among them
        self._room = 0  # rows of the buffers
        self._buffers: Dict[int, Tensor] = {}
        self._bags: Optional[List[Bags]] = None
        self._layout: Optional[Tuple[Tensor, Tensor]] = None  # positions and offsets of bags
        self._layout_of: Optional[torch.Size] = None  # the index
        self._mixings: Dict[int, nn.Module] = {}  # those that have been seen
        self._matrices: Optional[Tensor] = None  # the A of each of them
        self._weights: Dict[int, Tuple[Tensor, ...]] = {}  # of the newest position, by bags

    def __len__(self) -> int:
        """How many positions have begun."""
        return self._length

    def make_room(self, hypotheses: int, limit: int, device: torch.device) -> None:
        """Before a position begins: room for it.

        Args:
            hypotheses: R.
            limit: the most positions that there can be.
            device: of the tensors.
        """
        if self.index is None:
            if self.constant is None:
                self.constant = device.type != "cpu"
            self.position = torch.full((1,), -1, device=device)
            self.index = torch.zeros(hypotheses, 0, dtype=torch.long, device=device)
        room = self.index.size(1)
        if self._length == room:
            room = min(max(BUCKET, 2 * room), limit) if self.constant else room + 1
            self.index = F.pad(self.index, (0, room - self.index.size(1)))
        if self._newest is None or len(self._newest) != hypotheses:
            first = self._rows - hypotheses
            self._newest = torch.arange(first, self._rows, device=device)
        ahead = room - self._length if self.constant else 1
        self._make_rows(self._rows + ahead * hypotheses)
        self._length += 1
        self._rows += hypotheses
        self._bags = None
        if self.constant and self._layout_of != self.index.shape:
            self._layout, self._layout_of = self._lay_out(), self.index.shape
        if self._mixings:
            self._stack_matrices(limit)

    def advance(self) -> None:
        """Begin the next position: give each of R hypotheses a new row."""
        self._weights = {}
        self.position.add_(1)
        self._newest.add_(len(self._newest))
        self.index.index_copy_(1, self.position, self._newest.unsqueeze(1))

    def reorder(self, new_order: Tensor) -> None:
        """Let hypothesis r go on from hypothesis ``new_order[r]``; also drops and repeats rows."""
        if self.index is None:
            return
        moved = self.index.index_select(0, new_order)
        if self.constant and len(moved) == len(self.index):
            self.index.copy_(moved)
        else:
            self.index = moved

    def weighted_sum(self, mixing: nn.Module, x: Tensor) -> Tensor:
        """Store the newest inputs of a sublayer, and sum its inputs over each hypothesis's past,
        weighted by the newest row of its A.

        Args:
            mixing: a :class:`~resmlp_mt.model.token_mixing.TokenMixing`.
            x: R x C.

        Returns:
            R x C.
        """
        past = self._write(id(mixing), x)
        if self._bags is None:
            self._bags = self._collect()
        if id(mixing) not in self._weights:
            self._look_up(mixing)
        weights = self._weights[id(mixing)]
        y, *shared = (
            self._sum(past, some, bags, mixing.heads)
            for some, bags in zip(weights, self._bags, strict=True)
        )
        for sums in shared:
            y.view(-1, self.beam, y.size(1)).add_(sums.unsqueeze(1))
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
        past, window = self._write(layer, x), self.window(count)
        # row 0 is zero
        rows = self.index.index_select(1, window.clamp(min=0)) * (window >= 0)
        return past.index_select(0, rows.view(-1)).view(*rows.shape, -1)

    def window(self, count: int) -> Tensor:
        """Numbers of the last positions, the newest included; negative before the first one."""
        return self.position + torch.arange(1 - count, 1, device=self.position.device)

    def inside(self, count: int) -> Tensor:
        """Which positions of :meth:`window` are in the sentence."""
        return self.window(count) >= 0

    def _make_rows(self, rows: int) -> None:
        """Make the buffers that there are large enough for that many rows."""
        if rows <= self._room:
            return
        # doubling keeps the number of copies logarithmic in the length
        self._room = rows if self.constant else max(2 * rows, 16)
        for layer, old in self._buffers.items():
            buffer = self._buffers[layer] = old.new_empty(self._room, old.size(1))
            buffer[: self._rows] = old[: self._rows]

    def _write(self, layer: int, x: Tensor) -> Tensor:
        """Store R x C; returns all rows of that layer: what :attr:`index` points into."""
        buffer = self._buffers.get(layer)
        if buffer is None:
            buffer = self._buffers[layer] = x.new_empty(self._room, x.size(1))
            buffer[0] = 0
        if self.constant:
            return buffer.index_copy_(0, self._newest, x)
        buffer[self._rows - len(x) : self._rows] = x  # a tenth of the time on a CPU
        return buffer

    def _stack_matrices(self, limit: int) -> None:
        """Put together the A of all sublayers, for more positions than there are."""
        room = 0 if self._matrices is None else self._matrices.size(-1)
        if room < self._length:
            room = min(max(BUCKET, 2 * room), limit)
            matrices = [mixing.matrix(room) for mixing in self._mixings.values()]
            self._matrices = torch.stack(matrices)

    def _look_up(self, mixing: nn.Module) -> None:
        """Set the weights of the newest position: at once for all sublayers but at the first word,
        when they are not known."""
        if id(mixing) in self._mixings:
            numbers, matrices = list(self._mixings), self._matrices
        else:
            self._mixings[id(mixing)] = mixing
            numbers, matrices = [id(mixing)], mixing.matrix(self.index.size(1)).unsqueeze(0)
        rows = (
            matrices[:, :, self.position, bags.positions].flatten(1).unbind() for bags in self._bags
        )
        self._weights.update(zip(numbers, zip(*rows, strict=True), strict=True))

    def _lay_out(self) -> Tuple[Tensor, Tensor]:
        """Positions and offsets of a bag for each hypothesis."""
        hypotheses, width = self.index.shape
        offsets = torch.arange(0, hypotheses * width, width, device=self.index.device)
        return self._positions().repeat(hypotheses), offsets

    def _positions(self) -> Tensor:
        return torch.arange(self.index.size(1), device=self.index.device)

    def _collect(self) -> List[Bags]:
        """The newest position's sums: one for each hypothesis.

        Where beams share words, also one for each sentence, to be added to those of all its beams.
        """
        hypotheses, width = self.index.shape
        if self.constant or self.beam == 1 or hypotheses * width < SHARE_FROM:
            layout = self._layout if self.constant else self._lay_out()
            return [Bags(self.index.view(-1), *layout)]
        # beams of a sentence meet in a common ancestor, and before it their rows are the same
        beams = self.index.view(-1, self.beam, width)
        shared = (beams == beams[:, :1]).all(dim=1)  # B x W
        own = ~shared.repeat_interleave(self.beam, dim=0)
        return [self._select(own, self.index), self._select(shared, beams[:, 0])]

    def _select(self, chosen: Tensor, rows: Tensor) -> Bags:
        counts = chosen.sum(dim=1)
        positions = self._positions().expand_as(chosen)[chosen]
        return Bags(rows[chosen], positions, counts.cumsum(0) - counts)

    @staticmethod
    def _sum(past: Tensor, weights: Tensor, bags: Bags, heads: int) -> Tensor:
        """The sums of *bags*, n x C, of rows with H E *weights*, those of the first head first."""
        if weights.dtype != past.dtype:  # under autocast
            weights = weights.to(past.dtype)
        rows, offsets = bags.rows, bags.offsets
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
