"""What holds for every model, with options, sizes, lengths and types that Hypothesis draws."""

from unittest import mock

import pytest
import torch
from helpers import gap
from hypothesis import assume, given
from model_checks import (
    assert_causal,
    assert_decoder_ignores_padding,
    assert_decodes_as_in_one_pass,
    assert_encoder_ignores_padding,
    assert_folding_changes_nothing,
    assert_loads_as_saved,
    folded_affine_names,
)
from model_strategies import Case, cases, searches

from resmlp_mt.decoding import history
from resmlp_mt.model.folding import fold_

# the same sums in another order: rounding alone, through at most three random layers
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3}


@torch.no_grad()
def tolerance_of(case: Case) -> float:
    """The gap that rounding may make. In 16 bits it depends on the weights, so it is measured as
    the distance of the model from its copy in float64."""
    if case.dtype in TOLERANCES:
        return TOLERANCES[case.dtype]
    rounded, exact = (outputs(case.model(dtype), case) for dtype in (None, torch.float64))
    distance = max(gap(a.double(), b) for a, b in zip(rounded, exact, strict=True))
    assume(distance < 0.05)  # where rounding hides a wrong result, another example is drawn
    return 4 * distance + 0.02


def outputs(model, case: Case) -> list[torch.Tensor]:
    out = model.encoder(case.source(), return_all_hiddens=True)
    features, extra = model.decoder(case.words(), out, features_only=True)
    logits = model.decoder.output_layer(features)
    return [*out["encoder_states"], out["encoder_out"][0], *extra["inner_states"], features, logits]


def model_of(case: Case):
    model = case.model()
    if case.folded:
        fold_(model)
    return model


@given(case=cases())
def test_padding_never_leaks(case):
    """A sentence's states, features and attention are the same alone and in any batch, padded on
    either side."""
    model, tolerance, sources = model_of(case), tolerance_of(case), case.sources()
    assert_encoder_ignores_padding(model, case.dictionary, sources, case.left, tolerance)
    targets = case.target_sentences()
    assert_decoder_ignores_padding(model, case.dictionary, sources, targets, tolerance)


@given(case=cases())
def test_no_word_sees_the_future(case):
    """No later word moves an earlier logit by a single bit."""
    moves = case.dtype == torch.float64  # in 16 bits a small change may vanish
    assert_causal(model_of(case), case.dictionary, case.source(), case.words(), moves)


@given(case=searches())
def test_decoding_is_exact(case):
    """Word by word, the logits and attention of the full pass, whatever beam search moves."""
    model, tolerance = model_of(case), tolerance_of(case)
    torch.manual_seed(case.seed)
    with mock.patch.object(history, "SHARE_FROM", case.share_from):
        assert_decodes_as_in_one_pass(
            *(model, case.model(), case.dictionary, case.source(), case.moves, tolerance),
            *(case.beam, case.own),
        )


@given(case=cases())
def test_folding_changes_nothing(case):
    """Every affine map that a linear one follows is absorbed, and nothing else changes."""
    model, tolerance = case.model(), tolerance_of(case)
    sources = [case.source(left) for left in (True, False)]
    assert_folding_changes_nothing(model, sources, case.words(), tolerance)
    assert folded_affine_names(model) == []


@given(case=cases())
def test_saving(tmp_path_factory, case):
    """fairseq's checkpoint gives the model back from its saved options."""
    model, args = case.model(torch.float32), case.args()
    path = tmp_path_factory.mktemp("saved") / "checkpoint.pt"
    model.to(case.dtype)
    assert_loads_as_saved(model, case.dictionary, args, case.source(), case.words(), path)


@pytest.mark.parametrize(
    "dtype, least, most",
    [(torch.float64, 0, 1e-9), (torch.float32, 0, 1e-3), (torch.bfloat16, 0.02, 0.22)],
)
def test_no_tolerance_hides_a_wrong_result(dtype, least, most):
    options = {"normalization": "affine", "activation_fn": "relu"}
    assert least < tolerance_of(Case(options, dtype, 0, [3, 2], [2, 4], True)) <= most
