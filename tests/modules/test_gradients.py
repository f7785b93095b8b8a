"""Gradients reach every parameter that the data reaches, and no other."""

import pytest
import torch
from helpers import POSITIONS, build_model, mixings, pad_batch, random_sentences, shift

from resmlp_mt.modules.token_mixing import MATRICES

# a constant added to every key changes no softmax: its gradient is zero but for rounding
WITHOUT_GRADIENT = ("attn.k_proj.bias",)


def backward(model, dictionary, source_lengths, target_lengths, left=True):
    model.train()
    source = pad_batch(random_sentences(dictionary, source_lengths), dictionary, left)
    targets = random_sentences(dictionary, target_lengths, seed=1)
    logits, _ = model(source, None, pad_batch([shift(s) for s in targets], dictionary))
    torch.nn.functional.cross_entropy(
        logits.flatten(0, 1),
        pad_batch(targets, dictionary).flatten(),
        ignore_index=dictionary.pad(),
    ).backward()


def used_weights(mixing, length):
    """Which entries of each weight any entry of the *length* x *length* submatrix depends on."""
    names, weights = zip(*((n, p) for n, p in mixing.named_parameters() if n != "bias"))
    a = mixing.matrix(length)
    gradients = torch.autograd.grad((a * torch.rand_like(a)).sum(), weights)
    return {name: gradient != 0 for name, gradient in zip(names, gradients)}


@mixings
@pytest.mark.parametrize("normalization", ["affine", "layernorm"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
def test_every_parameter(kind, heads, normalization, bias):
    model, dictionary = build_model(
        token_mixing=kind,
        token_mixing_heads=heads,
        normalization=normalization,
        no_token_mixing_bias=not bias,
    )
    backward(model, dictionary, (POSITIONS, 9, POSITIONS), (POSITIONS, POSITIONS, 9))
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and torch.isfinite(parameter.grad).all(), name
        if name.endswith(WITHOUT_GRADIENT):
            continue
        assert parameter.grad.abs().max() > 1e-7, name
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        if kind not in MATRICES:
            continue
        mixing = layer.token_mixing.mixing
        for name, used in used_weights(mixing, POSITIONS).items():
            assert torch.equal(getattr(mixing, name).grad != 0, used)
        if bias:
            assert (mixing.bias.grad != 0).all()


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("heads", [1, 4])
@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_shorter_batches(kind, heads, left):
    """Exactly the positions that no sentence has get none."""
    source_lengths, target_lengths = (7, 10, 4), (6, 3, 5)
    model, dictionary = build_model(token_mixing=kind, token_mixing_heads=heads)
    backward(model, dictionary, source_lengths, target_lengths, left)
    for layers, lengths in (
        (model.encoder.layers, source_lengths),
        (model.decoder.layers, target_lengths),
    ):
        length = max(lengths)
        for layer in layers:
            mixing = layer.token_mixing.mixing
            for name, used in used_weights(mixing, length).items():
                assert torch.equal(getattr(mixing, name).grad != 0, used)
            in_use = (torch.arange(POSITIONS) < length).expand(heads, -1)
            assert torch.equal(mixing.bias.grad != 0, in_use)
            if kind == "linear":
                square = in_use.unsqueeze(2) & in_use.unsqueeze(1)
                expected = square.tril() if mixing.causal else square
                assert torch.equal(mixing.weight.grad != 0, expected)
