"""Dropout by bytes, a composition that stores less for the backward pass: same arithmetic."""

import pytest
import torch
from helpers import build_model, gap, pad_batch, random_sentences
from torch import nn
from torch.nn import functional as F

from resmlp_mt.model.affine import Affine
from resmlp_mt.model.lean import Dropout, compose, random_mask


@pytest.mark.parametrize("p", [0.0005, 0.1, 0.5, 0.9999])
def test_share_and_mean(p):
    x = torch.ones(400_001)
    y = Dropout(p).train()(x)
    share = (y == 0).float().mean().item()
    assert abs(share - p) < 5 * (p * (1 - p) / len(x)) ** 0.5 + 1 / 65536
    left = y[y != 0]
    assert len(left) and gap(left * (1 - p), torch.ones_like(left)) < 1e-6
    assert (x == 1).all()
    assert not random_mask(x, 0.999999).all()  # the threshold stays within the numbers drawn


def test_neighbours_are_independent():
    """One random number makes four elements: whether one stays says nothing of the next."""
    mask = random_mask(torch.empty(1 << 20), 0.5).view(-1, 4).float()
    assert (mask.mean(dim=0) - 0.5).abs().max() < 0.005
    assert (torch.corrcoef(mask.t()) - torch.eye(4)).abs().max() < 0.01


@pytest.mark.parametrize("shape", [(3,), (2, 3, 11), (0, 4), ()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_size(shape, dtype):
    x = torch.full(shape, 2.0, dtype=dtype)
    torch.manual_seed(5)
    y = Dropout(0.5).train()(x)
    assert y.shape == x.shape and y.dtype == dtype and ((y == 0) | (y == 4)).all()
    torch.manual_seed(5)
    assert torch.equal(Dropout(0.5).train()(x), y)
    for same in (Dropout(0.0).train(), Dropout(0.5).eval()):
        assert same(x) is x
    assert Dropout(1.0).train()(x).count_nonzero() == 0


def test_gradient_is_the_mask():
    """For a view of another tensor too; one byte an element is kept for it."""
    saved = []
    x = torch.randn(6, 4, 5, requires_grad=True)
    view = x.transpose(0, 2)[1:, ::2]
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = Dropout(0.4).train()(view)
    assert sum(tensor.nbytes for tensor in saved if tensor.dim()) == view.numel()
    gradient = torch.randn_like(y)
    (found,) = torch.autograd.grad(y, view, gradient)
    kept = (y != 0).float()
    assert 0 < kept.sum() < kept.numel()
    assert gap(y, view * kept / 0.6) < 1e-6 and gap(found, gradient * kept / 0.6) < 1e-6


@torch.no_grad()
def test_retained_in_generation():
    """fairseq's --retain-dropout, for all modules or those that it names."""
    for names, drops in ((None, True), (["FeedForwardBranch"], True), (["Other"], False)):
        model, dictionary = build_model(dropout=0.5)
        source = pad_batch(random_sentences(dictionary, (4, 4)), dictionary)
        prev = torch.full((2, 3), 5)
        model.make_generation_fast_(retain_dropout=True, retain_dropout_modules=names)
        first, second = (model(source, None, prev)[0] for _ in range(2))
        assert (gap(first, second) > 1e-3) == drops


def test_in_a_branch():
    """Dropout is last; for the backward pass stay the input, B's and C's output and a byte mask."""
    model, _ = build_model(encoder_embed_dim=32, encoder_ffn_embed_dim=128, dropout=0.1)
    branch = model.encoder.layers[0].feed_forward.train()
    x = torch.randn(20, 16, 32, requires_grad=True)
    with torch.profiler.profile(profile_memory=True) as profile:
        y = branch(x)
    del y
    kept = sum(event.self_cpu_memory_usage for event in profile.events())
    expected = x.nbytes * (4 + 1 + 1 / 4 + 1)  # B's, C's, the mask, and the result
    assert abs(kept - expected) < 0.01 * expected
    nn.init.zeros_(branch.post.alpha)
    nn.init.ones_(branch.post.beta)
    y = branch(torch.full((50, 40, 32), 9.0))
    assert gap(y.unique(), torch.tensor([9.0, 9 + 1 / 0.9])) < 1e-6
    assert abs((y == 9).float().mean() - 0.1) < 0.02


FUNCTIONS = {
    "gelu": F.gelu,
    "affine": Affine(3),
    "layernorm": nn.LayerNorm(3),
    "transposed": lambda x: F.gelu(x).transpose(0, 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compose(name):
    """Value, gradients and second derivatives, by differences."""
    function = FUNCTIONS[name]
    if isinstance(function, nn.Module):
        nn.init.normal_(next(function.double().parameters()))
    x, weight, bias = (
        torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((2, 4, 3), (5, 3), (5,))
    )

    def composed(x, weight, bias):
        return compose(lambda h: F.linear(h, weight, bias), function, x)

    assert torch.equal(composed(x, weight, bias), F.linear(function(x), weight, bias))
    assert torch.autograd.gradcheck(composed, (x, weight, bias))
    assert torch.autograd.gradgradcheck(composed, (x, weight, bias))


def test_hooks_are_called():
    """Whoever watches a layer sees every call of the forward pass."""
    model, dictionary = build_model()
    calls = []
    for name, module in model.named_modules():
        own = name.rpartition("layers.")[2].partition(".")[2]
        module.register_forward_hook(lambda *_, own=own: calls.append(own.rpartition(".")[2]))
    source = pad_batch(random_sentences(dictionary, (9, 3, 6)), dictionary, left=True)
    model.train()(source, None, torch.full((3, 8), 5))[0].logsumexp(-1).sum().backward()
    # six maps before a linear layer are computed again for the backward pass
    expected = {"mixing": 4, "fc1": 4, "fc2": 4, "q_proj": 2, "pre": 10 + 6, "post": 10}
    assert {name: calls.count(name) for name in expected} == expected


@pytest.mark.parametrize("kind", ["linear", "toeplitz", "gated", "conv"])
def test_one_graph_for_training_and_for_the_encoder(kind):
    """To ``torch.compile``."""
    options = dict(decoder_layers=1, encoder_layers=1, dropout=0.1, token_mixing=kind)
    model, dictionary = build_model(token_positional_embeddings=kind == "conv", **options)
    source = pad_batch(random_sentences(dictionary, (3, 7, 5)), dictionary, left=True)
    prev = pad_batch(random_sentences(dictionary, (4, 2, 6), 1), dictionary)
    torch._dynamo.reset()
    compiled = torch.compile(model.train(), fullgraph=True, backend="eager")
    loss = compiled(source, None, prev)[0].float().log_softmax(-1).sum()
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())
    model.eval()
    encode = torch.compile(model.encoder, fullgraph=True, backend="eager")
    with torch.no_grad():
        (expected,), (found,) = (f(source)["encoder_out"] for f in (model.encoder, encode))
    torch.testing.assert_close(found, expected)
