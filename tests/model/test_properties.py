"""What holds for every model, with options, sizes, lengths and types that Hypothesis draws."""

from argparse import Namespace
from collections import Counter
from unittest import mock

import pytest
import torch
from fairseq.utils import import_user_module
from fairseq_programs import ROOT
from helpers import HEADED, at_tokens, gap, random_sentences, random_tokens, shift
from hypothesis import assume, given
from hypothesis import strategies as st
from model_strategies import KINDS, Case, cases, searches
from torch import nn

from resmlp_mt.model.inference import fold_
from resmlp_mt.model.layers import Affine
from resmlp_mt.model.memory import DecodingMemory
from resmlp_mt.model.mixing import TOKEN_MIXING

# the same sums in another order: rounding alone, through at most three random layers
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3}
NEAR = Counter[bool]()  # examples in 16 bits, by whether they are near those in 64


@pytest.fixture(scope="module", params=["ours", "examples"])
def kinds(request):
    """Names of token mixings: the package's, or those of examples/mixings."""
    if request.param == "ours":
        yield KINDS
        return
    warned = mock.patch("resmlp_mt.model.mixing.logger.warning", side_effect=AssertionError)
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
    targets = list(map(shift, random_sentences(dictionary, case.targets, case.seed + 1)))
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
    layers = nn.ModuleList([*model.encoder.folded(), *model.decoder.folded()])
    norms = (Affine, nn.LayerNorm)
    left = [name for name, module in layers.named_modules() if isinstance(module, norms)]
    assert all("token_mixing" in name for name in left)
    assert bool(left) == (case.options["token_mixing"] not in (*HEADED, "none"))
