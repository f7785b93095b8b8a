"""Training keeps less for its backward pass, and computes what plain training computes."""

import pytest
import torch
from helpers import build_model, gap, pad_batch, random_sentences, shift
from torch import nn
from torch.nn import functional as F

from resmlp_mt.model.affine import Affine
from resmlp_mt.model.lean_training import compose

FUNCTIONS = {
    "gelu": F.gelu,
    "relu": F.relu,
    "tanh": torch.tanh,
    "identity": lambda x: x,
    "affine": Affine(3),
    "layernorm": nn.LayerNorm(3),
    "transposed": lambda x: F.gelu(x).transpose(0, 1),
}
LENGTHS = (9, 3, 6), (5, 8, 2)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(4, 3), (2, 4, 3)], ids=str)
def test_compose(name, shape):
    """Value, gradients and second derivatives, by differences."""
    function = FUNCTIONS[name]
    if isinstance(function, nn.Module):
        function = function.double()
        nn.init.normal_(next(function.parameters()))
    if name == "transposed" and len(shape) == 2:
        shape = (3, 4)
    x, weight, bias = (
        torch.randn(s, dtype=torch.float64, requires_grad=True) for s in (shape, (5, 3), (5,))
    )

    def composed(x, weight, bias):
        return compose(lambda h: F.linear(h, weight, bias), function, x)

    assert torch.equal(composed(x, weight, bias), F.linear(function(x), weight, bias))
    assert torch.autograd.gradcheck(composed, (x, weight, bias))
    assert torch.autograd.gradgradcheck(composed, (x, weight, bias))


@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_accurate", "tanh", "linear"])
@pytest.mark.parametrize("normalization", ["affine", "layernorm"])
def test_gradients_of_a_model(activation, normalization, monkeypatch):
    """Bit for bit those of a model that keeps everything."""
    model, dictionary = build_model(activation_fn=activation, normalization=normalization)
    found = gradients(model, dictionary)
    monkeypatch.setattr(
        "resmlp_mt.model.branches.compose", lambda linear, function, x: linear(function(x))
    )
    expected = gradients(model, dictionary)
    assert found.keys() == expected.keys() and len(found) == len(list(model.parameters()))
    for name, gradient in expected.items():
        assert gradient.count_nonzero() and torch.equal(found[name], gradient), name


def loss_of(model, dictionary):
    sources, targets = (random_sentences(dictionary, n, seed) for seed, n in enumerate(LENGTHS))
    prev = pad_batch([shift(s) for s in targets], dictionary)
    logits, _ = model.train()(pad_batch(sources, dictionary, left=True), None, prev)
    wanted = pad_batch(targets, dictionary).flatten()
    return F.cross_entropy(logits.flatten(0, 1), wanted, ignore_index=dictionary.pad())


def gradients(model, dictionary):
    model.zero_grad()
    loss_of(model, dictionary).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def held_after(function) -> int:
    """Bytes that *function* allocates and that are still held when it returns."""
    with torch.profiler.profile(profile_memory=True) as profile:
        result = function()
    del result
    return sum(event.self_cpu_memory_usage for event in profile.events())


def test_what_a_feed_forward_branch_keeps():
    """Its input, B's output, C's output and a mask of bytes: not GELU's result, nor Aff's."""
    model, _ = build_model(encoder_embed_dim=32, encoder_ffn_embed_dim=128, dropout=0.1)
    branch = model.encoder.layers[0].feed_forward.train()
    x = torch.randn(20, 16, 32, requires_grad=True)
    kept = held_after(lambda: branch(x))
    # B's output, C's output, the mask, and the result
    expected = x.nbytes * (4 + 1 + 1 / 4 + 1)
    assert abs(kept - expected) < 0.01 * expected


@pytest.mark.parametrize("part", ["pre", "post", "mixing", "fc1", "fc2", "attn.q_proj"])
def test_hooks_are_called(part):
    """Whoever watches a layer, or changes what it gives, sees every call of the forward pass."""
    model, dictionary = build_model()
    expected = loss_of(model, dictionary)
    calls = []
    for name, module in model.named_modules():
        if name.endswith(f".{part}"):
            module.register_forward_hook(lambda module, inputs, output: calls.append(output))
    loss = loss_of(model, dictionary)
    branches = {"mixing": 4, "fc1": 4, "fc2": 4, "attn.q_proj": 2}.get(part, 10)
    assert len(calls) == branches and torch.equal(loss, expected)


def test_quantization_noise():
    """It changes a layer's weight when the layer is called: each call draws its own."""
    model, dictionary = build_model(quant_noise_pq=0.5, quant_noise_pq_block_size=4)
    layer = model.train().encoder.layers[0].feed_forward
    x = torch.randn(2, 3, 16)
    assert gap(layer(x), layer(x)) > 1e-3
    assert all(torch.isfinite(g).all() for g in gradients(model, dictionary).values())


def test_autocast():
    """bfloat16 products: finite gradients in float32, close to those of float32."""
    model, dictionary = build_model(std=0.1)
    expected = gradients(model, dictionary)
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = loss_of(model, dictionary)
    loss.backward()
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient.dtype == torch.float32 and torch.isfinite(gradient).all(), name
        # a constant added to every key changes no softmax: that gradient is rounding
        if not name.endswith("k_proj.bias"):
            error = (gradient - expected[name]).norm() / expected[name].norm()
            assert error < 0.1, name
