"""What step-by-step decoding remembers.

Beam search reorders and drops hypotheses, but copies nothing that is stored here. The inputs of the
token mixings are written once, a row of a buffer for each hypothesis and position; an index, shared
by all layers, holds the rows of each hypothesis's past. The keys and values of the cross-attention
are stored once, since a hypothesis never changes its sentence.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

# in the dictionary that fairseq hands from step to step, one per model of an ensemble
_KEY = "resmlp_mt.model.memory"
# share of finished sentences at which their keys and values are dropped: this copies the others,
# which costs as much as a few steps of attention to the finished ones
CLEAR_AT = 0.25
# room for this many positions at first; it doubles when it is full
BUCKET = 32

Key = tuple[nn.Module, int]  # a branch, and the number of the tensor that its mixing stores


class DecodingMemory:
    """The past of the target, for the token mixings, and the source, for the cross-attention."""

    def __init__(self) -> None:
        self.history = BeamHistory()
        self.source: SourceMemory | None = None  # None before the first token
        self.layers: Iterable[nn.Module] = ()  # the decoder's, chosen at the first token

    @staticmethod
    def of(incremental_state: dict) -> "DecodingMemory":
        """The memory in *incremental_state*, a new one if there is none yet."""
        return incremental_state.setdefault(_KEY, DecodingMemory())

    def reorder(self, new_order: Tensor) -> None:
        """Let row r continue the hypothesis of row ``new_order[r]``, as fairseq's search asks. As
        long as there are as many rows, each stays with its sentence."""
        if self.source is not None:
            self.history.reorder(new_order)
            if len(new_order) != self.source.stored:
                self.source.keep(new_order)

    def follow(self, parents: Tensor, kept: Tensor | None, beam: int) -> None:
        """:meth:`reorder` for our own search, which stores each sentence once and never waits for
        the device. From now on each sentence has *beam* neighbouring rows. *kept* are indices of
        the active sentences that stay active; None keeps all."""
        if self.source is not None:
            self.history.reorder(parents)
            self.source.beam = beam
            if kept is not None:
                self.source.drop_others(kept)


class BeamHistory:
    """The inputs of every token mixing so far, for R hypotheses.

    A mixing may store several tensors in a step, always in the same order: each call continues what
    the same call of the step before stored.

    Attributes:
        length: positions so far, the newest included.
        index: R x room; the buffer row of each hypothesis's input at each position. Later positions
            point to row 0, which is zero.
    """

    def __init__(self) -> None:
        self.length = 0
        self.index = torch.zeros(0, 0, dtype=torch.long)
        self._branch, self._calls = nn.Module(), 0  # of the mixing that is running
        self._matrices: dict[Key, tuple[Tensor, ...]] = {}  # rows of A, H x room each
        self._rows = 1  # written so far, row 0 included
        self._capacity = 0  # rows of each buffer
        self._buffers: dict[Key, Tensor] = {}  # capacity x C

    @property
    def position(self) -> int:
        """The newest position, counted from 0."""
        return self.length - 1

    @property
    def on_gpu(self) -> bool:
        """Whether to fix shapes and never wait for the device: a GPU takes longer to launch an
        operation than to run it."""
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

    def reorder(self, new_order: Tensor) -> None:
        """See :meth:`DecodingMemory.reorder`."""
        self.index = self.index.index_select(0, new_order)

    def begin(self, branch: nn.Module) -> "BeamHistory":
        """This history, for the mixing of *branch* in this step."""
        self._branch, self._calls = branch, 0
        return self

    def weighted_sum(self, x: Tensor, matrix: Callable[[int], Tensor]) -> Tensor:
        """Store the newest inputs, R x C. Returns the newest row of ``A x``, R x C, for each of R
        hypotheses. ``matrix(n)`` is A for n positions, H x n x n and triangular."""
        key, past = self._write(x)
        if key not in self._matrices:
            self._matrices[key] = matrix(self.index.size(1)).unbind(1)
        index = self.index if self.on_gpu else self.index[:, : self.length]
        weights = self._matrices[key][self.position][:, : index.size(1)]
        heads, groups = len(weights), torch.arange(len(weights), device=index.device)
        # each head has weights of its own: a buffer row of H groups becomes H rows of one
        rows = index * heads + groups[:, None, None]  # H x R x T
        weights = weights.to(past.dtype)[:, None].expand(rows.shape)  # another type by autocast
        y = F.embedding_bag(
            rows.flatten(0, 1),
            past.view(len(past) * heads, -1),
            per_sample_weights=weights.flatten(0, 1),
            mode="sum",
        )
        return y.view(heads, len(x), -1).transpose(0, 1).reshape(x.shape)

    def recent(self, x: Tensor, count: int) -> Tensor:
        """Store the newest inputs, R x C. Returns the last *count* of each hypothesis,
        R x count x C, the oldest first, zero before the first position."""
        _, past = self._write(x)
        rows = self.index[:, max(0, self.length - count) : self.length]
        rows = F.pad(rows, (count - rows.size(1), 0))
        return past.index_select(0, rows.reshape(-1)).view(*rows.shape, -1)

    def recur(self, step: Callable[[Tensor], Tensor], initial: Tensor) -> Tensor:
        """Store and return ``step(state)``, R x S: the *state* of each hypothesis is what this
        returned at the position before, *initial* at the first."""
        state = initial
        if self.length > 1:
            past = self._buffers[self._branch, self._calls + 1]
            state = past.index_select(0, self.index[:, self.length - 2])
        new = step(state)
        self._write(new)
        return new

    def _write(self, x: Tensor) -> tuple[Key, Tensor]:
        """Store R x C; returns its key and buffer, which :attr:`index` points into."""
        self._calls += 1
        key = self._branch, self._calls
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = x.new_empty(self._capacity, x.size(1))
            buffer[0] = 0
        buffer[self._rows - len(x) : self._rows] = x
        return key, buffer


class SourceMemory:
    """The keys and values of every layer for B sentences, read by K hypotheses of each.

    *states*, S x B x C, are the encoder's output.

    Attributes:
        mask: added to the attention scores, stored x 1 x 1 x S, or None.
        stored: how many sentences have keys and values here.
        beam: K, the hypotheses per sentence, which are neighbours.
    """

    def __init__(self, states: Tensor, mask: Tensor | None):
        self._states, self.mask = states, mask
        self._keys_values: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self.stored, self.beam = states.size(1), 1
        self._active: Tensor | None = None  # numbers of stored sentences in use; None: all

    def keys_values(self, attention: nn.Module, project: Callable) -> tuple[Tensor, Tensor]:
        """A layer's keys and values, stored x H x S x C / H each; at the first call
        ``project(attention, states)`` computes them from the encoder's output."""
        if attention not in self._keys_values:
            keys, values = project(attention, self._states)
            self._keys_values[attention] = keys.contiguous(), values.contiguous()
        return self._keys_values[attention]

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
        return x.flatten(2).flatten(0, 1)

    def drop_others(self, kept: Tensor) -> None:
        """Keep these active sentences active."""
        active = kept if self._active is None else self._active.index_select(0, kept)
        if len(active) <= (1 - CLEAR_AT) * self.stored:
            self.keep(active)
        else:
            self._active = active

    def keep(self, stored: Tensor) -> None:
        """Keep only these sentences, all of them active."""
        self._states = self._states.index_select(1, stored)
        if self.mask is not None:
            self.mask = self.mask.index_select(0, stored)
        self._keys_values = {
            attention: (keys.index_select(0, stored), values.index_select(0, stored))
            for attention, (keys, values) in self._keys_values.items()
        }
        self.stored, self._active = len(stored), None
