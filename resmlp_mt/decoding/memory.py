"""The memory of word-by-word decoding, in the dictionary that fairseq hands from step to step.

Beam search moves hypotheses within their sentence only, so the keys and values of the
cross-attention stay in place, once a sentence, and all its beams read the same ones.
"""

from typing import Callable, Dict, Iterable, Optional, Tuple

import torch
from torch import Tensor, nn

from resmlp_mt.decoding.history import BeamHistory

# fairseq hands every module the same dictionary; each model of an ensemble has one of its own
_KEY = "resmlp_mt.decoding.memory"
# finished sentences are cleared away when they take up this share of the memory: each clearing
# copies what is left, and so costs at most as much as a few steps over the dead ones
CLEAR_AT = 0.25


class DecodingMemory:
    """Past target words, for the mixing sublayers, and the source, for the cross-attention.

    Attributes:
        source: None before the first word, or without a source.
        layers: those of the decoder that the sentences began with.
        need_attention: whether attention weights are wanted beside the features.
    """

    def __init__(self) -> None:
        self.history = BeamHistory()
        self.source: Optional[SourceMemory] = None
        self.layers: Iterable[nn.Module] = ()
        self.need_attention = True

    @staticmethod
    def of(incremental_state: dict) -> "DecodingMemory":
        """The memory in *incremental_state*, made empty if there is none yet."""
        if _KEY not in incremental_state:
            incremental_state[_KEY] = DecodingMemory()
        return incremental_state[_KEY]

    def remember(self, source: "SourceMemory") -> None:
        """Keep the source, before the first word."""
        self.source, self.history.beam = source, source.beam

    def reorder(self, new_order: Tensor) -> None:
        """Let hypothesis r continue hypothesis ``new_order[r]``; also drops and repeats rows."""
        self.history.reorder(new_order)
        if self.source is not None:
            self.source.reorder(new_order)
            self.history.beam = self.source.beam

    def follow(self, rows: Tensor, kept: Optional[Tensor], beam: int) -> None:
        """:meth:`reorder` where hypotheses stay within their sentence, of which *kept* are left
        (None: all) with *beam* hypotheses each."""
        self.history.reorder(rows)
        self.history.beam = beam
        if self.source is None:
            return
        if self.source.beam != beam:
            self.source.spread(beam)
        if kept is not None:
            self.source.keep(kept)


class SourceMemory:
    """Each layer's keys and values of B sentences, for R hypotheses of theirs.

    *states*, S x B x C, are the encoder's output; *sentence*, R, is that (0..B-1) of each
    hypothesis, None for one each.

    Attributes:
        mask: added to the attention scores, stored x 1 x 1 x S, or None.
        stored: how many sentences have their keys and values kept.
        sentence: R; which of them each hypothesis is of.
        beam: how many neighbouring rows belong to one sentence; 1 if their numbers differ.
    """

    def __init__(self, states: Tensor, mask: Optional[Tensor], sentence: Optional[Tensor] = None):
        self._states, self.mask = states, mask
        self._keys_values: Dict[int, Tuple[Tensor, Tensor]] = {}
        self.stored = states.size(1)
        self._live: Optional[Tensor] = None  # which stored sentences are still translated
        self.beam = 1
        self.sentence = torch.arange(self.stored, device=states.device)
        if sentence is not None:
            self._assign(sentence)

    def keys_values(
        self, layer: int, project: Callable[[Tensor], Tuple[Tensor, Tensor]]
    ) -> Tuple[Tensor, Tensor]:
        """What *project* makes of the states for a layer, stored x H x S x C / H each."""
        if layer not in self._keys_values:
            keys, values = project(self._states)
            self._keys_values[layer] = keys.contiguous(), values.contiguous()
        return self._keys_values[layer]

    def by_sentence(self, x: Tensor, heads: int) -> Tensor:
        """R x C to stored x H x K x C / H: the beams where attention expects a target's words."""
        x = x.view(-1, self.beam, heads, x.size(1) // heads)
        if self._live is not None:
            x = x.new_zeros(self.stored, *x.shape[1:]).index_copy_(0, self._live, x)
        return x.transpose(1, 2)

    def by_row(self, x: Tensor) -> Tensor:
        """Stored x H x K x N to R x H N: undoes :meth:`by_sentence`."""
        x = x.transpose(1, 2)
        if self._live is not None:
            x = x.index_select(0, self._live)
        return x.reshape(len(self.sentence), -1)

    def reorder(self, new_order: Tensor) -> None:
        """Let hypothesis r continue hypothesis ``new_order[r]``; also drops and repeats rows."""
        sentence = self.sentence.index_select(0, new_order)
        if not torch.equal(sentence, self.sentence):
            self._assign(sentence)

    def spread(self, beam: int) -> None:
        """Give each sentence *beam* hypotheses in place of those it had."""
        self.sentence = self.sentence.view(-1, self.beam)[:, 0].repeat_interleave(beam)
        self.beam = beam

    def keep(self, sentences: Tensor) -> None:
        """Drop all but the given ones of the sentences that are left, with all their beams."""
        kept = self.sentence.view(-1, self.beam).index_select(0, sentences)
        self._set_live(kept[:, 0], kept.view(-1))

    def _assign(self, sentence: Tensor) -> None:
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
        if self.mask is not None:
            self.mask = self.mask.index_select(0, live)
        self._keys_values = {
            layer: (keys.index_select(0, live), values.index_select(0, live))
            for layer, (keys, values) in self._keys_values.items()
        }
        self.stored, self._live = len(live), None
        rows = torch.arange(len(live), device=live.device)
        self.sentence = rows.repeat_interleave(self.beam)
