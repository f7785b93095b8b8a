"""What step-by-step decoding remembers.

Beam search reorders and drops hypotheses, but copies nothing that is stored here. The inputs of the
token mixings are written once, a row of a buffer for each hypothesis and position; an index, shared
by all layers, holds the rows of each hypothesis's past. The keys and values of the cross-attention
are stored once per sentence, since a hypothesis never changes its sentence.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# in the dictionary that fairseq hands from step to step, one per model of an ensemble
_KEY = "resmlp_mt.model.memory"
# drop the keys and values of finished sentences once they are this share of all: that copies the
# rest, which costs as much as attending to the finished ones for a few steps
CLEAR_AT = 0.25
# with fewer inputs to sum, looking for those that beams share takes longer than summing them
SHARE_FROM = 1024
# room for this many positions at first; it doubles when it is full
BUCKET = 32

Key = tuple[int, int]  # the number of a layer, and of the tensor that its mixing stores
Matrix = Callable[[int], Tensor]


class DecodingMemory:
    """The past of the target, for the token mixings, and the source, for the cross-attention."""

    def __init__(self) -> None:
        self.history = BeamHistory()
        self.source: SourceMemory | None = None  # None before the first token
        self.layers: Iterable[nn.Module] = ()  # the decoder's, chosen at the first token
        self.need_attention = True  # return attention weights, too

    @staticmethod
    def of(incremental_state: dict) -> "DecodingMemory":
        """The memory in *incremental_state*, a new one if there is none yet."""
        if _KEY not in incremental_state:
            incremental_state[_KEY] = DecodingMemory()
        return incremental_state[_KEY]

    def reorder(self, new_order: Tensor) -> None:
        """Let row r continue the hypothesis of row ``new_order[r]``. Rows may be dropped, and any
        sentence may have any number of them."""
        self.history.reorder(new_order)
        if self.source is not None:
            self.source.reorder(new_order)
            self.history.beam = self.source.beam

    def follow(self, parents: Tensor, kept: Tensor | None, beam: int) -> None:
        """:meth:`reorder` for our own search, which never waits for the device: each sentence has
        *beam* neighbouring rows from now on. *kept* are the active sentences that stay active, by
        their places among the active ones; None: all."""
        self.history.reorder(parents)
        self.history.beam = beam
        if self.source is not None:
            self.source.follow(kept, beam)


class Bags(NamedTuple):
    """Arguments of ``embedding_bag`` for n weighted sums over E inputs in all."""

    rows: Tensor  # E; the buffer row of each input, those of the first sum first
    positions: Tensor  # E; the position of each input in its sentence
    offsets: Tensor  # n; where the inputs of each sum begin


class BeamHistory:
    """The inputs of every token mixing so far, for R hypotheses.

    A mixing may store several tensors in a step, always in the same order: each call continues what
    the same call of the step before stored.

    Attributes:
        length: positions so far, the newest included.
        beam: hypotheses per sentence, which are neighbours; 1 if unknown.
        index: R x room; the buffer row of each hypothesis's input at each position. Later positions
            point to row 0, which is zero.
    """

    def __init__(self) -> None:
        self.length = 0
        self.beam = 1
        self.index = torch.zeros(0, 0, dtype=torch.long)
        self._layer = self._calls = 0  # of the mixing that is running
        self._matrices: dict[Key, tuple[Tensor, ...]] = {}  # rows of A, H x room each
        self._rows = 1  # written so far, row 0 included
        self._capacity = 0  # rows of each buffer
        self._buffers: dict[Key, Tensor] = {}  # capacity x C
        self._bags: list[Bags] | None = None  # of the newest position
        # positions and offsets of bags without shared inputs, for an index of that shape
        self._layout: tuple[torch.Size, Tensor, Tensor] | None = None

    @property
    def position(self) -> int:
        """The newest position, counted from 0."""
        return self.length - 1

    @property
    def launch_bound(self) -> bool:
        """On a GPU, where launching operations takes longer than running them: shapes are fixed,
        and nothing waits for the device."""
        return self.index.device.type != "cpu"

    def advance(self, hypotheses: int, limit: int, device: torch.device) -> None:
        """Begin the next of at most *limit* positions: a new row for each of R hypotheses."""
        if not self.length:
            self.index = torch.zeros(hypotheses, 0, dtype=torch.long, device=device)
        room = self.index.size(1)
        if self.length == room:
            room = min(max(BUCKET, 2 * room), limit)
            self.index = F.pad(self.index, (0, room - self.length))
            self._matrices = {}
        needed = self._rows + (room - self.length) * hypotheses
        if needed > self._capacity:
            self._capacity = needed
            for key, old in self._buffers.items():
                buffer = self._buffers[key] = old.new_empty(needed, old.size(1))
                buffer[: self._rows] = old[: self._rows]
        rows = torch.arange(self._rows, self._rows + hypotheses, device=device)
        self.index[:, self.length] = rows
        self.length += 1
        self._rows += hypotheses
        self._bags = None

    def reorder(self, new_order: Tensor) -> None:
        """See :meth:`DecodingMemory.reorder`."""
        if self.length:
            self.index = self.index.index_select(0, new_order)

    def of_layer(self, layer: int) -> "BeamHistory":
        """This history, for the mixing of a layer that begins a step."""
        self._layer, self._calls = layer, 0
        return self

    def weighted_sum(self, x: Tensor, matrix: Matrix) -> Tensor:
        """Store the newest inputs, R x C. Returns the newest row of ``A x``, R x C, for each of R
        hypotheses. ``matrix(n)`` is A for n positions, H x n x n and triangular."""
        key, past = self._write(x)
        if key not in self._matrices:
            self._matrices[key] = matrix(self.index.size(1)).unbind(1)
        row = self._matrices[key][self.position]
        if self._bags is None:
            self._bags = self._collect()
        y, *shared = (self._sum(past, row, bags) for bags in self._bags)
        for sums in shared:
            y.view(-1, self.beam, y.size(1)).add_(sums.unsqueeze(1))
        return y

    def recent(self, x: Tensor, count: int) -> Tensor:
        """Store the newest inputs, R x C. Returns the last *count* of each hypothesis,
        R x count x C, the oldest first, zero before the first position."""
        _, past = self._write(x)
        rows = self.index[:, max(0, self.length - count) : self.length]
        rows = F.pad(rows, (count - rows.size(1), 0))
        return past.index_select(0, rows.reshape(-1)).view(*rows.shape, -1)

    def _write(self, x: Tensor) -> tuple[Key, Tensor]:
        """Store R x C; returns its key and buffer, which :attr:`index` points into."""
        self._calls += 1
        key = self._layer, self._calls
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = x.new_empty(self._capacity, x.size(1))
            buffer[0] = 0
        buffer[self._rows - len(x) : self._rows] = x
        return key, buffer

    def _collect(self) -> list[Bags]:
        """One bag per hypothesis; or, where beams share a prefix, one per hypothesis for the rest
        and one per sentence for the prefix."""
        index = self.index if self.launch_bound else self.index[:, : self.length]
        hypotheses, width = index.shape
        if self.launch_bound or self.beam == 1 or index.numel() < SHARE_FROM:
            if self._layout is None or self._layout[0] != index.shape:
                positions = torch.arange(width, device=index.device).repeat(hypotheses)
                offsets = torch.arange(0, hypotheses * width, width, device=index.device)
                self._layout = index.shape, positions, offsets
            return [Bags(index.reshape(-1), *self._layout[1:])]
        # hypotheses of a sentence have the same rows up to their common ancestor
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
            # each head has weights of its own: a buffer row of H groups becomes H rows of one
            past = past.view(past.size(0) * heads, -1)
            groups = torch.arange(heads, device=rows.device).unsqueeze(1)
            rows = (rows * heads + groups).view(-1)
            offsets = (offsets + bags.rows.numel() * groups).view(-1)
        y = F.embedding_bag(rows, past, offsets, per_sample_weights=weights, mode="sum")
        if heads > 1:
            y = y.view(heads, -1, y.size(1)).transpose(0, 1).reshape(-1, heads * y.size(1))
        return y


def _select(chosen: Tensor, rows: Tensor) -> Bags:
    """A bag for each of the n rows of *rows*, n x T, with the entries that are *chosen*."""
    counts = chosen.sum(dim=1)
    positions = torch.arange(chosen.size(1), device=chosen.device).expand_as(chosen)[chosen]
    return Bags(rows[chosen], positions, counts.cumsum(0) - counts)


class SourceMemory:
    """The keys and values of every layer for B sentences, read by R hypotheses.

    *states*, S x B x C, are the encoder's output; *sentence*, R, is the number of the sentence that
    each hypothesis translates (None: one hypothesis per sentence).

    Attributes:
        mask: added to the attention scores, stored x 1 x 1 x S, or None.
        stored: how many sentences have keys and values here.
        sentence: R; the number of each hypothesis's sentence among the stored ones.
        beam: K, the hypotheses per sentence, which are neighbours; 1 if sentences differ in it.
    """

    def __init__(self, states: Tensor, mask: Tensor | None, sentence: Tensor | None = None):
        self._states, self.mask = states, mask
        self._keys_values: dict[int, tuple[Tensor, Tensor]] = {}
        self.stored = states.size(1)
        self._active: Tensor | None = None  # numbers of stored sentences in use; None: all
        self.beam = 1
        self.sentence = torch.arange(self.stored, device=states.device)
        if sentence is not None:
            self._assign(sentence)

    def keys_values(
        self, layer: int, project: Callable[[Tensor], tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """A layer's keys and values, stored x H x S x C / H each; *project* computes them from the
        encoder's output at the first call."""
        if layer not in self._keys_values:
            keys, values = project(self._states)
            self._keys_values[layer] = keys.contiguous(), values.contiguous()
        return self._keys_values[layer]

    def by_sentence(self, x: Tensor, heads: int) -> Tensor:
        """R x C to stored x H x K x C / H: to attention, the K hypotheses of a sentence are K
        positions of one target. Sentences that are not active have zeros."""
        x = x.view(-1, self.beam, heads, x.size(1) // heads)
        if self._active is not None:
            x = x.new_zeros(self.stored, *x.shape[1:]).index_copy_(0, self._active, x)
        return x.transpose(1, 2)

    def by_row(self, x: Tensor) -> Tensor:
        """Stored x H x K x N to R x H N: undoes :meth:`by_sentence`."""
        x = x.transpose(1, 2)
        if self._active is not None:
            x = x.index_select(0, self._active)
        return x.reshape(len(self.sentence), -1)

    def reorder(self, new_order: Tensor) -> None:
        """See :meth:`DecodingMemory.reorder`."""
        sentence = self.sentence.index_select(0, new_order)
        if not torch.equal(sentence, self.sentence):
            self._assign(sentence)

    def follow(self, kept: Tensor | None, beam: int) -> None:
        """See :meth:`DecodingMemory.follow`."""
        if self.beam != beam:
            self.sentence = self.sentence.view(-1, self.beam)[:, 0].repeat_interleave(beam)
            self.beam = beam
        if kept is not None:
            sentence = self.sentence.view(-1, beam).index_select(0, kept)
            self._set_active(sentence[:, 0], sentence.view(-1))

    def _assign(self, sentence: Tensor) -> None:
        """Set the stored sentence of each hypothesis, R; waits for the device."""
        numbers = sentence.tolist()
        kept = list(dict.fromkeys(numbers))
        beam = len(numbers) // max(len(kept), 1)
        if [s for s in kept for _ in range(beam)] == numbers:
            self.beam = beam
            self._set_active(torch.tensor(kept, device=sentence.device), sentence)
        else:
            # sentences with unequal numbers of hypotheses: each gets keys and values of its own
            self.beam = 1
            self._active = None
            self._store_only(sentence)

    def _set_active(self, active: Tensor, sentence: Tensor) -> None:
        self.sentence, self._active = sentence, active
        if len(active) <= (1 - CLEAR_AT) * self.stored:
            self._store_only(active)
        elif len(active) == self.stored and bool((active[1:] > active[:-1]).all()):
            self._active = None

    def _store_only(self, active: Tensor) -> None:
        self._states = self._states.index_select(1, active)
        if self.mask is not None:
            self.mask = self.mask.index_select(0, active)
        self._keys_values = {
            layer: (keys.index_select(0, active), values.index_select(0, active))
            for layer, (keys, values) in self._keys_values.items()
        }
        self.stored, self._active = len(active), None
        rows = torch.arange(len(active), device=active.device)
        self.sentence = rows.repeat_interleave(self.beam)
