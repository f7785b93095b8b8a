"""What holds for every model: five properties, and how many examples of each Hypothesis tries."""

import functools
import tempfile
from collections import Counter
from pathlib import Path
from typing import List
from unittest import mock

import torch
from helpers import gap
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from model_checks import (
    affine_names,
    assert_causal,
    assert_decoder_ignores_padding,
    assert_decodes_as_in_one_pass,
    assert_encoder_ignores_padding,
    assert_folding_changes_nothing,
    assert_loads_as_saved,
)
from model_strategies import Case, cases, searches

from resmlp_mt.decoding import history
from resmlp_mt.decoding.folding import fold_

COMMON = dict(
    deadline=None,  # the machine's speed is not what is tested
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile("suite", max_examples=5, derandomize=True, **COMMON)
settings.register_profile("soak", max_examples=200, **COMMON)

# the same sums in another order: rounding alone, through at most three random layers
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3}


@torch.no_grad()
def tolerance_of(case: Case) -> float:
    """The gap that rounding may make.

    16 bits round coarsely, and how far a few random layers carry their rounding depends on the
    weights. It is measured: two ways of computing one thing are each about as far from the exact
    result as the model is from its copy in float64. Where that is too far to tell a wrong result
    from a rounded one, Hypothesis draws another example.
    """
    if case.dtype in TOLERANCES:
        return TOLERANCES[case.dtype]
    rounded, exact = (_outputs(case.model(dtype), case) for dtype in (None, torch.float64))
    distance = max(gap(a.double(), b) for a, b in zip(rounded, exact, strict=True))
    assume(distance < 0.05)
    return 4 * distance + 0.02


def _outputs(model, case: Case) -> List[torch.Tensor]:
    out = model.encoder(case.source(), return_all_hiddens=True)
    features, extra = model.decoder(case.words(), out, features_only=True)
    logits = model.decoder.output_layer(features)
    return [*out["encoder_states"], out["encoder_out"][0], *extra["inner_states"], features, logits]


def padding(case: Case) -> None:
    """A sentence's states, features and attention are the same alone and in any batch, padded on
    either side."""
    model, tolerance = case.model(), tolerance_of(case)
    if case.folded:
        fold_(model)
    sources = case.sources()
    assert_encoder_ignores_padding(model, case.dictionary, sources, case.left, tolerance)
    assert_decoder_ignores_padding(
        model, case.dictionary, sources, case.target_sentences(), tolerance
    )


def causality(case: Case) -> None:
    """No later word moves an earlier logit by a single bit."""
    model = case.model()
    if case.folded:
        fold_(model)
    # in eight bits a small change may vanish
    moves = case.dtype == torch.float64
    assert_causal(model, case.dictionary, case.source(), case.words(), moves)


def decoding(case: Case) -> None:
    """Word by word, the logits and attention of the full pass, whatever beam search moves."""
    model, full, tolerance = case.model(), case.model(), tolerance_of(case)
    if case.folded:
        fold_(model)
    torch.manual_seed(case.seed)
    with mock.patch.object(history, "SHARE_FROM", case.share_from):
        assert_decodes_as_in_one_pass(
            *(model, full, case.dictionary, case.source(), case.moves, tolerance),
            *(case.beam, case.own),
        )


def folding(case: Case) -> None:
    """Every affine map that a linear one follows is absorbed, and nothing else changes."""
    model, tolerance = case.model(), tolerance_of(case)
    sources = [case.source(left) for left in (True, False)]
    assert_folding_changes_nothing(model, sources, case.words(), tolerance)
    stays = []
    if case.options["normalization"] == "affine":
        if case.options.get("no_cross_attention"):
            stays.append("encoder.layer_norm")
        if "adaptive_softmax_cutoff" in case.options and model.decoder.layer_norm is not None:
            stays.append("decoder.layer_norm")
    assert affine_names(model) == stays


def saving(case: Case) -> None:
    """fairseq's checkpoint, folded or not, gives the model back from its saved options."""
    model, args = case.model(torch.float32), case.args()
    if case.folded:
        fold_(model)
        args.folded = True
    model.to(case.dtype)
    with tempfile.TemporaryDirectory() as folder:
        assert_loads_as_saved(
            *(model, case.dictionary, args, case.source(), case.words()),
            Path(folder) / "checkpoint.pt",
        )


PROPERTIES = {
    "padding": (padding, cases),
    "causality": (causality, cases),
    "decoding": (decoding, searches),
    "folding": (folding, cases),
    "saving": (saving, cases),
}


def hold(name: str, kind: str, profile: str, number: int = 0) -> Counter:
    """Try one property with examples of one kind of token mixing.

    Args:
        name: of the property.
        kind: of ``--token-mixing``.
        profile: how many examples, see the top of this file.
        number: seed of the examples, where the profile does not fix them.

    Returns:
        how many examples held, by dtype.

    Raises:
        Exception: what the plainest failing example raises; its notes hold the example.
    """
    check, strategy = PROPERTIES[name]
    held = Counter()

    @functools.wraps(check, assigned=("__name__", "__doc__"))
    def counted(case: Case) -> None:
        check(case)
        held[str(case.dtype).removeprefix("torch.")] += 1

    del counted.__wrapped__  # Hypothesis reads the signature
    seed(number)(settings(settings.get_profile(profile))(given(case=strategy(kind))(counted)))()
    return held
