"""What holds for every model, with options, sizes, lengths and types that Hypothesis draws."""

from argparse import Namespace
from unittest import mock

import pytest
import torch
from fairseq.utils import import_user_module
from fairseq_programs import ROOT
from helpers import HEADED, build_model, gap, random_sentences, shift
from hypothesis import assume, given
from hypothesis import strategies as st
from model_checks import assert_causal, assert_decodes_as_in_one_pass, at_tokens
from model_strategies import KINDS, Case, cases, searches
from torch import nn

from resmlp_mt.model.affine import Affine
from resmlp_mt.model.inference import fold_
from resmlp_mt.model.mixing import TOKEN_MIXING

# the same sums in another order: rounding alone, through at most three random layers
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3}


@pytest.fixture(scope="module", params=["ours", "examples"])
def kinds(request):
    """Names of token mixings: the package's, or those of examples/mixings."""
    if request.param == "ours":
        yield KINDS
        return
    with mock.patch.dict(TOKEN_MIXING):
        import_user_module(Namespace(user_dir=str(ROOT / "examples" / "mixings")))
        yield [kind for kind in TOKEN_MIXING if kind not in KINDS]


@torch.no_grad()
def tolerance_of(case: Case) -> float:
    """The gap that rounding may make; in 16 bits it is measured against a float64 copy."""
    if case.dtype in TOLERANCES:
        return TOLERANCES[case.dtype]
    both = (outputs(case.model(dtype), case) for dtype in (None, torch.float64))
    distance = max(gap(a.double(), b) for a, b in zip(*both, strict=True))
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
    sources, targets = case.sources(), list(map(shift, case.target_sentences()))
    batch = at_tokens(model, dictionary, sources, targets, case.left, not case.left)
    for source, target, found in zip(sources, targets, batch, strict=True):
        (alone,) = at_tokens(model, dictionary, [source], [target], False, False)
        for a, b in zip(found, alone, strict=True):
            assert gap(a, b) < tolerance


@torch.no_grad()
def test_encoder_outputs_are_padded_like_the_source():
    """On whichever side."""
    model, dictionary = build_model()
    long, short = random_sentences(dictionary, (9, 5))
    pads = torch.full((4,), dictionary.pad())
    tokens = torch.stack([long, torch.cat([pads, short]), torch.cat([short, pads])])
    found = model.encoder(tokens)
    assert torch.equal(found["encoder_padding_mask"][0], tokens.eq(dictionary.pad()))
    assert found["src_lengths"][0].flatten().tolist() == [9, 5, 5]
    assert found["encoder_states"] == []
    states, alone = (x["encoder_out"][0] for x in (found, model.encoder(short.unsqueeze(0))))
    assert gap(states[4:, 1], alone[:, 0]) < 1e-4 and gap(states[:5, 2], alone[:, 0]) < 1e-4


@given(data=st.data())
def test_no_token_sees_the_future(kinds, data):
    case = data.draw(cases(kinds))
    moves = case.dtype == torch.float64  # in 16 bits a small change may vanish
    assert_causal(model_of(case), case.dictionary, case.source(), case.tokens(), moves)


@given(data=st.data())
def test_decoding_is_exact(kinds, data):
    """Step by step, the logits and attention of the full pass, whatever beam search moves."""
    case = data.draw(searches(kinds))
    model, tolerance = model_of(case), tolerance_of(case)
    torch.manual_seed(case.seed)
    assert_decodes_as_in_one_pass(
        *(model, case.model(), case.dictionary, case.source(), case.moves, tolerance),
        *(case.beam, case.own),
    )


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
    left = [name for name, module in layers.named_modules() if isinstance(module, Affine)]
    assert all("token_mixing" in name for name in left)
    assert bool(left) == (case.options["token_mixing"] not in (*HEADED, "none"))
