"""What word-by-word decoding remembers of the source: keys and values, once a sentence.

Beam search moves hypotheses within their sentence only, so that the keys and values of the
cross-attention stay in place; all beams of a sentence read the same ones.
"""

from typing import Dict, Optional, Tuple

import torch
from torch import Tensor, nn

from resmlp_mt.model.attention import attend, dropout_of, split_heads
from resmlp_mt.model.padding import hide_padding

# finished sentences are cleared away when they take up this share of the memory: each clearing
# copies what is left, and so costs at most as much as a few steps over the dead ones
CLEAR_AT = 0.25


class SourceMemory:
    """The encoder's output for R hypotheses of B sentences, and each layer's keys and values.

    Args:
        states: S x B x C.
        padding_mask: B x S, True at padding, or None.
        sentence: R; the sentence (0..B-1) of each hypothesis. None: one hypothesis each.

    Attributes:
        stored: how many sentences have their keys and values kept.
        sentence: R; which of them each hypothesis is of.
        beam: how many neighbouring rows belong to one sentence; 1 if their numbers differ.
    """

    def __init__(
        self, states: Tensor, padding_mask: Optional[Tensor], sentence: Optional[Tensor] = None
    ):
        self._states = states
        self._mask = hide_padding(padding_mask, states.dtype)
        self._keys_values: Dict[int, Tuple[Tensor, Tensor]] = {}
        self.stored = states.size(1)
        self._live: Optional[Tensor] = None  # which stored sentences are still translated
        self.beam = 1
        self.sentence = torch.arange(self.stored, device=states.device)
        if sentence is not None:
            self._follow(sentence)

    def reorder(self, new_order: Tensor) -> None:
        """Let hypothesis r go on from hypothesis ``new_order[r]``; also drops and repeats rows."""
        sentence = self.sentence.index_select(0, new_order)
        if not torch.equal(sentence, self.sentence):
            self._follow(sentence)

    def spread(self, beam: int) -> None:
        """Let each hypothesis of a sentence become *beam* ones in place of what there were."""
        self.sentence = self.sentence.view(-1, self.beam)[:, 0].repeat_interleave(beam)
        self.beam = beam

    def keep(self, sentences: Tensor) -> None:
        """Drop all but the given ones of the B sentences that are left, with all their beams."""
        kept = self.sentence.view(-1, self.beam).index_select(0, sentences)
        self._set_live(kept[:, 0], kept.view(-1))

    def attend(
        self, layer: int, attention: nn.Module, query: Tensor, need_weights: bool = False
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Attention of the newest words, before the output projection.

        Args:
            layer: a number that is the layer's own.
            attention: fairseq's MultiheadAttention, of which the projections, the number of heads
                and the dropout are used.
            query: R x C, projected but not scaled.
            need_weights: also return the weights.

        Returns:
            R x C, and None or the weights by head, H x R x 1 x S.
        """
        if layer not in self._keys_values:
            self._keys_values[layer] = tuple(
                split_heads(projection(self._states), attention.num_heads).contiguous()
                for projection in (attention.k_proj, attention.v_proj)
            )
        keys, values = self._keys_values[layer]
        rows, channels = query.shape
        query = query.view(rows // self.beam, self.beam, attention.num_heads, -1)
        if self._live is not None:
            spread = query.new_zeros(self.stored, *query.shape[1:])
            query = spread.index_copy_(0, self._live, query)
        y, weights = attend(
            query.transpose(1, 2),
            keys,
            values,
            self._mask,
            dropout_of(attention),
            need_weights,
        )
        y = y.transpose(1, 2)
        if self._live is not None:
            y = y.index_select(0, self._live)
            weights = None if weights is None else weights.index_select(0, self._live)
        if weights is not None:
            weights = weights.transpose(0, 1).reshape(attention.num_heads, rows, 1, -1)
        return y.reshape(rows, channels), weights

    def _follow(self, sentence: Tensor) -> None:
        """Take on a new list of hypotheses, given the stored sentence of each."""
        numbers = sentence.tolist()
        kept = list(dict.fromkeys(numbers))
        beam = len(numbers) // max(len(kept), 1)
        if [s for s in kept for _ in range(beam)] == numbers:
            self.beam = beam
            self._set_live(torch.tensor(kept, device=sentence.device), sentence)
        else:
            # unequal numbers of hypotheses: each gets keys and values of its own
            self.beam = 1
            self._live = None
            self._store_only(sentence)

    def _set_live(self, live: Tensor, sentence: Tensor) -> None:
        self.sentence, self._live = sentence, live
        if len(live) <= (1 - CLEAR_AT) * self.stored:
            self._store_only(live)
        elif len(live) == self.stored and bool((live[1:] > live[:-1]).all()):
            self._live = None  # all of them, in the stored order

    def _store_only(self, live: Tensor) -> None:
        self._states = self._states.index_select(1, live)
        if self._mask is not None:
            self._mask = self._mask.index_select(0, live)
        self._keys_values = {
            layer: (keys.index_select(0, live), values.index_select(0, live))
            for layer, (keys, values) in self._keys_values.items()
        }
        self.stored, self._live = len(live), None
        rows = torch.arange(len(live), device=live.device)
        self.sentence = rows.repeat_interleave(self.beam)
