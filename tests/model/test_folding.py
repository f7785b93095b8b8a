"""Folding: overflow, the same products, and no weight that is ever stale."""

from copy import deepcopy
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from helpers import HEADED, MIXINGS, POSITIONS, build_model, change, gap, inputs
from torch import nn
from torch.nn.functional import gelu

from resmlp_mt.model.inference import fold, product
from resmlp_mt.model.layers import FeedForwardBranch
from resmlp_mt.model.memory import BeamHistory

GENERATION = SimpleNamespace(generation=SimpleNamespace(beam=4))


@torch.no_grad()
def logits_of(model, dictionary):
    return model(*inputs(dictionary))[0]


@pytest.mark.parametrize("kind, heads", MIXINGS)
@torch.no_grad()
def test_large_states_do_not_overflow_in_float16(kind, heads):
    """Their sum would. The map before the mixing makes them small, also when it is folded."""
    model, _ = build_model(token_mixing=kind, token_mixing_heads=heads, randomize=False)
    # a gate is a product of two states, each of which grows with the weights
    weight = 0.1 if kind == "gated" else 0.5
    x = torch.full((POSITIONS, 2, 16), 6000.0, dtype=torch.float16)
    for side in (model.encoder, model.decoder):
        branch = side.layers[0].token_mixing
        nn.init.constant_(branch.pre.alpha, 0.01)
        nn.init.constant_(branch.pre.beta, 0.5)
        for parameter in branch.mixing.parameters():
            if parameter.dim() > 1:
                nn.init.constant_(parameter, weight)
        branch.half()
        assert gap(fold(branch)(x), branch(x)) < 2e-3
    folded, history, newest = fold(branch), BeamHistory(), []
    for token in x:
        history.advance(2, POSITIONS, x.device)
        newest.append(folded(token, history=history))
    assert gap(torch.stack(newest), branch(x)) < 2e-3


OF_GATED = ("token_mixing.mixing.output", "cross_attention.attn.q_proj", "feed_forward.fc1")
PARTS = [("encoder.layers.0", "linear"), ("encoder.layers.1.token_mixing.pre", "linear")]
PARTS += [(f"decoder.layers.0.feed_forward.{name}", "linear") for name in ("fc1", "fc2")]
PARTS += [("decoder.layers.0.token_mixing.mixing", kind) for kind in HEADED]
PARTS += [(f"decoder.layers.0.{name}", "gated") for name in (*OF_GATED, "token_mixing.pre")]


@pytest.mark.parametrize("how", ["class", "hook", "pre-hook", "forward"])
@pytest.mark.parametrize("name, kind", PARTS)
def test_a_changed_part_runs_as_it_is(name, kind, how):
    model, dictionary = build_model(token_mixing=kind)
    change(model.get_submodule(name), how, gelu)
    expected = logits_of(model, dictionary)
    model.prepare_for_inference_(GENERATION)
    assert gap(logits_of(model, dictionary), expected) < 1e-3


def test_a_branch_with_one_more_part_runs_as_it_is(monkeypatch):
    """Such as a gate, which would read states without the map before it."""
    model, dictionary = build_model()
    for layer in (*model.encoder.layers, *model.decoder.layers):
        layer.feed_forward.gate = nn.Linear(16, 16)
    gated = lambda self, x: x + self.gate(self.pre(x))  # noqa: E731
    monkeypatch.setattr(FeedForwardBranch, "forward", gated)
    expected = logits_of(model, dictionary)
    model.prepare_for_inference_(GENERATION)
    assert gap(logits_of(model, dictionary), expected) < 1e-3


def prepared(**options):
    """A model as fairseq's programs and the hub translate with it."""
    model, dictionary = build_model(**options)
    model.prepare_for_inference_(GENERATION)
    return model, dictionary


def assert_runs_as_trained(model, dictionary, name="", **options):
    """Folded, it computes what a new model of the same weights does."""
    fresh = build_model(seed=1, **options)[0]
    fresh.load_state_dict(model.state_dict())
    assert gap(logits_of(model, dictionary), logits_of(fresh, dictionary)) < 1e-3, name


@pytest.mark.parametrize("kind", ["linear", "gated"])
def test_every_change_of_a_parameter_is_followed(kind):
    """In place, by another tensor, by loading."""
    options = {"token_mixing": kind, "encoder_layers": 1, "decoder_layers": 1}
    model, dictionary = prepared(**options)
    last = logits_of(model, dictionary)
    for name, parameter in list(model.named_parameters()):
        with torch.no_grad():
            parameter.mul_(1.1).add_(0.01)
        logits = logits_of(model, dictionary)
        assert_runs_as_trained(model, dictionary, name, **options)
        # a constant added to every key changes no softmax
        assert name.endswith("k_proj.bias") or not torch.equal(logits, last), name
        last = logits
        parent, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent), attribute, nn.Parameter(parameter * 1.01))
    assert_runs_as_trained(model, dictionary, **options)
    model.load_state_dict(build_model(seed=7, **options)[0].state_dict())
    assert_runs_as_trained(model, dictionary, **options)


def test_layers_that_are_taken_away_run_no_more():
    model, dictionary = prepared()
    logits_of(model, dictionary)
    for stack in (model.encoder, model.decoder):
        stack.layers = stack.layers[:1].eval()
    assert_runs_as_trained(model, dictionary, encoder_layers=1, decoder_layers=1)


def test_a_copy_and_a_change_of_type_are_followed():
    model, dictionary = prepared()
    before = logits_of(model, dictionary)
    copied = deepcopy(model)
    with torch.no_grad():
        copied.decoder.layers[0].feed_forward.fc2.bias.add_(1)
    assert_runs_as_trained(copied, dictionary)
    assert torch.equal(logits_of(model, dictionary), before)
    assert gap(logits_of(model.double(), dictionary).float(), before) < 1e-4


def test_a_model_made_in_inference_mode_translates_outside_of_it():
    """Its tensors have no versions."""
    with torch.inference_mode():
        model, dictionary = prepared()
    assert_runs_as_trained(model, dictionary)


def test_gradients_reach_the_trained_parameters():
    """Also of a model that a user trains further, in a loop of their own."""
    model, dictionary = prepared(dropout=0.5)
    assert model.train() is model and model.encoder.layers[0].training
    model(*inputs(dictionary))[0].logsumexp(-1).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert_runs_as_trained(model.eval(), dictionary)


@pytest.mark.parametrize("shape", [(1, 24), (4, 24), (5, 24), (6, 24), (2, 2, 24), (0, 24)])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("few", [1, 5])  # on Intel's CPUs, on others
@torch.inference_mode()
def test_the_product_of_few_rows(shape, bias, few):
    linear, x = nn.Linear(24, 40, bias=bias), torch.randn(shape)
    with mock.patch("resmlp_mt.model.inference.FEW", few):
        found, expected = product(x, linear.weight, linear.bias), linear(x)
    assert found.shape == expected.shape and found.is_contiguous()
    assert torch.allclose(found, expected, atol=1e-5)
