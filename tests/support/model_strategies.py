"""What Hypothesis draws: models, sentences, moves of a beam search; the plainest comes first."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd
from typing import NamedTuple

import torch
from helpers import MIXINGS, build_model, pad_batch, random_sentences, random_tokens
from hypothesis import strategies as st

from resmlp_mt.model.config import has_heads

VOCABULARY = 30
KINDS = (*dict(MIXINGS), "none")
SHARED = ({}, {"share_decoder_input_output_embed": True}, {"share_all_embeddings": True})
# of the weights; in 16 bits larger ones make attention, now and then, turn on the rounding
STD = {torch.float64: 0.3, torch.float32: 0.3, torch.float16: 0.1, torch.bfloat16: 0.1}


class Move(NamedTuple):
    """What beam search does to its R hypotheses after a token."""

    parents: list[int]  # of each hypothesis from now on
    kept: list[int] | None = None  # places of the active sentences that stay active; None: all
    beam: int = 1  # hypotheses per sentence from now on


@dataclass
class Case:
    """A model of random weights, and sentences for it."""

    options: dict[str, object]
    dtype: torch.dtype
    seed: int  # of weights and tokens
    lengths: Sequence[int]  # of the source sentences, end of sentence included
    targets: Sequence[int]  # the same of the targets
    left: bool  # the padding's side in the source
    folded: bool = False
    moves: list[Move] = field(default_factory=list)
    beam: int = 1
    own: bool = False

    def model(self, dtype=None):
        """A new one at each call, always with the same weights."""
        std = STD[self.dtype]
        model, _ = build_model(seed=self.seed, vocabulary=VOCABULARY, std=std, **self.options)
        return model.to(dtype or self.dtype)

    @cached_property
    def dictionary(self):
        return build_model(vocabulary=VOCABULARY)[1]

    def sources(self):
        return random_sentences(self.dictionary, self.lengths, self.seed)

    def source(self, left=None):
        """The sources as a batch, B x S."""
        return pad_batch(self.sources(), self.dictionary, self.left if left is None else left)

    def tokens(self):
        """Tokens for the decoder, B x T."""
        torch.manual_seed(self.seed)
        return random_tokens(self.dictionary, len(self.lengths), max(self.targets))


def _choose(draw, *values):
    return draw(st.sampled_from(values))


@st.composite
def options_of_a_model(draw, kinds: Sequence[str]) -> dict[str, object]:
    """Options of the model that go together, those at their default left out."""
    kind = _choose(draw, *kinds)
    heads = _choose(draw, 1, 2, 4)
    shared = _choose(draw, *SHARED)
    channels = heads * _choose(draw, 4, 6, 8)
    decoder_channels = channels
    if "share_all_embeddings" not in shared and draw(st.booleans()):
        decoder_channels = heads * _choose(draw, 4, 5, 7)
    options = {
        **shared,
        "token_mixing": kind,
        "encoder_embed_dim": channels,
        "decoder_embed_dim": decoder_channels,
        "decoder_attention_heads": heads,
        "encoder_layers": draw(st.integers(1, 3)),
        "decoder_layers": draw(st.integers(1, 3)),
        "encoder_ffn_embed_dim": draw(st.integers(1, 24)),
        "decoder_ffn_embed_dim": draw(st.integers(1, 24)),
        "max_source_positions": draw(st.integers(2, 14)),
        "max_target_positions": draw(st.integers(2, 14)),
        "normalization": _choose(draw, "affine", "layernorm"),
        "activation_fn": _choose(draw, "relu", "gelu", "gelu_accurate", "tanh", "linear"),
        "layerscale_init": _choose(draw, 0.2, 1.0, 1e-3),
    }
    if has_heads(kind):
        both = gcd(channels, decoder_channels)
        divisors = [n for n in range(1, both + 1) if both % n == 0]
        options["token_mixing_heads"] = _choose(draw, *divisors)
    switches = ["no_token_mixing_bias", "no_decoder_final_norm", "checkpoint_activations"]
    switches += ["no_scale_embedding"]
    switches += ["token_positional_embeddings", "encoder_learned_pos", "decoder_learned_pos"]
    for switch in draw(st.lists(st.sampled_from(switches), unique=True, max_size=4)):
        options[switch] = True
    if draw(st.booleans()):
        options.update(encoder_layerdrop=0.3, decoder_layerdrop=0.3)
    return options


@st.composite
def cases(draw, kinds: Sequence[str], most_sentences: int = 4) -> Case:
    """A model, and sentences that it has positions for."""
    options = draw(options_of_a_model(kinds))
    n = draw(st.integers(1, most_sentences))
    lengths, targets = (
        draw(st.lists(st.integers(1, options[f"max_{side}_positions"]), min_size=n, max_size=n))
        for side in ("source", "target")
    )
    dtype, seed = _choose(draw, *STD), draw(st.integers(0, 1 << 16))
    return Case(options, dtype, seed, lengths, targets, draw(st.booleans()), draw(st.booleans()))


@st.composite
def searches(draw, kinds: Sequence[str]) -> Case:
    """A case with the moves of a beam search, ours or fairseq's, which has all rows at first."""
    case = draw(cases(kinds, most_sentences=3))
    case.own = draw(st.booleans())
    later = draw(st.integers(1, 4))  # hypotheses of a sentence after the first token
    case.beam = beam = 1 if case.own else later
    most, sentences = case.options["max_target_positions"] - 1, len(case.lengths)
    for _ in range(draw(st.integers(0, most))):
        kept = list(range(sentences))
        if sentences > 1 and _choose(draw, False, False, True):
            kept.remove(draw(st.integers(0, sentences - 1)))
        size = len(kept) * later
        parents = draw(st.lists(st.integers(0, beam - 1), min_size=size, max_size=size))
        places = [kept[i // later] * beam + parent for i, parent in enumerate(parents)]
        left = None if len(kept) == sentences else kept
        case.moves.append(Move(places, left, later))
        sentences, beam = len(kept), later
    return case
