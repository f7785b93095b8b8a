"""What holds for every model, with options, sizes, lengths and types that Hypothesis draws: models,
sentences, moves of a beam search; the plainest comes first."""

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import gcd
from typing import NamedTuple
from unittest import mock

import pytest
import torch
from fairseq.utils import import_user_module
from fairseq_programs import ROOT
from helpers import HEADED, MIXINGS, at_tokens, build_model, gap, pad_batch, random_sentences
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn

from resmlp_mt.model.config import has_heads
from resmlp_mt.model.inference import fold_
from resmlp_mt.model.layers import Affine
from resmlp_mt.model.memory import DecodingMemory
from resmlp_mt.model.mixing import TOKEN_MIXING

VOCABULARY = 30
KINDS = (*dict(MIXINGS), "none")
SHARED = ({}, {"share_decoder_input_output_embed": True}, {"share_all_embeddings": True})
# of the weights; in 16 bits larger ones make attention, now and then, turn on the rounding
STD = {torch.float64: 0.3, torch.float32: 0.3, torch.float16: 0.1, torch.bfloat16: 0.1}


def random_tokens(dictionary, *shape):
    """By PyTorch's random numbers, none of them a special symbol."""
    return torch.randint(dictionary.nspecial, len(dictionary), shape)


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


# the same sums in another order: rounding alone, through at most three random layers
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3}
NEAR = Counter[bool]()  # examples in 16 bits, by whether they are near those in 64


@pytest.fixture(scope="module", params=["ours", "examples"])
def kinds(request):
    """Names of token mixings: the package's, or those of examples/mixings."""
    if request.param == "ours":
        yield KINDS
        return
    warned = mock.patch("resmlp_mt.model.own_mixing.logger.warning", side_effect=AssertionError)
    with mock.patch.dict(TOKEN_MIXING), warned:
        import_user_module(Namespace(user_dir=str(ROOT / "examples" / "mixings")))
        yield [kind for kind in TOKEN_MIXING if kind not in KINDS]


@torch.no_grad()
def tolerance_of(case: Case) -> float:
    """The gap that rounding may make; in 16 bits it is measured against a float64 copy."""
    if case.dtype in TOLERANCES:
        return TOLERANCES[case.dtype]
    both = (outputs(case.model(dtype), case) for dtype in (None, torch.float64))
    distance = max(gap(a.double(), b) for a, b in zip(*both, strict=True))
    NEAR[distance < 0.05] += 1  # a model that is wrong in 16 bits alone would always be skipped
    assert NEAR[False] < 5 + NEAR[True] / 4, NEAR
    assume(distance < 0.05)  # where rounding hides a wrong result, another example is drawn
    return 4 * distance + 0.02


def outputs(model, case: Case) -> list[torch.Tensor]:
    out = model.encoder(case.source(), return_all_hiddens=True)
    features, extra = model.decoder(case.tokens(), out, features_only=True)
    logits = model.decoder.output_layer(features)
    return [*out["encoder_states"], out["encoder_out"][0], *extra["inner_states"], features, logits]


def model_of(case: Case):
    model = case.model()
    if case.folded:
        fold_(model)
    return model


@given(data=st.data())
@torch.no_grad()
def test_padding_never_leaks(kinds, data):
    case = data.draw(cases(kinds))
    model, tolerance, dictionary = model_of(case), tolerance_of(case), case.dictionary
    sources = case.sources()
    targets = [s.roll(1) for s in random_sentences(dictionary, case.targets, case.seed + 1)]
    batch = at_tokens(model, dictionary, sources, targets, case.left, not case.left)
    for source, target, found in zip(sources, targets, batch, strict=True):
        (alone,) = at_tokens(model, dictionary, [source], [target], False, False)
        for a, b in zip(found, alone, strict=True):
            assert gap(a, b) < tolerance


@given(data=st.data())
@torch.no_grad()
def test_no_token_sees_the_future(kinds, data):
    """A later token changes no earlier logit by a bit, but its own."""
    case = data.draw(cases(kinds))
    model, source, prev = model_of(case), case.source(), case.tokens()
    logits, _ = model(source, None, prev)
    for position in range(prev.size(1)):
        changed = prev.clone()
        changed[:, position] = 4 + (changed[:, position] - 3) % (len(case.dictionary) - 4)
        moved, _ = model(source, None, changed)
        assert torch.equal(moved[:, :position], logits[:, :position])
        if case.dtype == torch.float64:  # in 16 bits a small change may vanish
            assert not torch.equal(moved[:, position], logits[:, position])


def decoded(case: Case, model, full):
    """At each step of a search, logits and attention: decoded by *model*, and of *full* at once."""
    beams = torch.arange(len(case.lengths)).repeat_interleave(case.beam)
    outs = [m.encoder.reorder_encoder_out(m.encoder(case.source()), beams) for m in (model, full)]
    state, tokens = {}, torch.full((len(beams), 1), case.dictionary.eos())
    for move in [*case.moves, None]:
        expected, extra = full.decoder(tokens, outs[1])
        if case.own:
            stored = DecodingMemory.of(state)
            features = model.decoder.newest_features(tokens[:, -1], outs[0], stored)
            yield model.decoder.output_layer(features), expected[:, -1]
        else:
            logits, newest = model.decoder(tokens, outs[0], state)
            yield logits[:, 0], expected[:, -1]
            if extra["attn"][0] is not None:
                yield newest["attn"][0][:, 0], extra["attn"][0][:, -1]
        if move is None:
            return
        rows = torch.tensor(move.parents)
        if case.own:
            kept = None if move.kept is None else torch.tensor(move.kept)
            stored.follow(rows, kept, move.beam)
        else:
            model.decoder.reorder_incremental_state_scripting(state, rows)
            outs[0] = model.encoder.reorder_encoder_out(outs[0], rows)
        outs[1] = full.encoder.reorder_encoder_out(outs[1], rows)
        tokens = torch.cat([tokens[rows], random_tokens(case.dictionary, len(rows), 1)], dim=1)


@given(data=st.data())
@torch.no_grad()
def test_decoding_is_exact(kinds, data):
    """Step by step, the logits and attention of the full pass, whatever beam search moves."""
    case = data.draw(searches(kinds))
    model, tolerance = model_of(case), tolerance_of(case)
    torch.manual_seed(case.seed)
    for found, expected in decoded(case, model, case.model()):
        assert gap(found, expected) < tolerance


@given(data=st.data())
@torch.no_grad()
def test_folding_changes_nothing(kinds, data):
    """Every affine map is absorbed, but the last and those around a mixing without a rule."""
    case = data.draw(cases(kinds))
    model, tolerance, prev = case.model(), tolerance_of(case), case.tokens()
    sources = [case.source(left) for left in (True, False)]
    before = [model(source, None, prev)[0] for source in sources]
    fold_(model)
    for source, logits in zip(sources, before, strict=True):
        assert gap(model(source, None, prev)[0], logits) < tolerance
    stacks = (model.encoder, model.decoder)
    layers = nn.ModuleList([layer for stack in stacks for layer in stack.folded(stack.layers)])
    norms = (Affine, nn.LayerNorm)
    left = [name for name, module in layers.named_modules() if isinstance(module, norms)]
    assert all("token_mixing" in name for name in left)
    assert bool(left) == (case.options["token_mixing"] not in (*HEADED, "none"))
