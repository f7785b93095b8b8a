"""Dropout with a mask of one byte an element: PyTorch's arithmetic on random numbers of our own."""

import pytest
import torch
from helpers import build_model, gap, pad_batch, random_sentences
from torch import nn

from resmlp_mt.model.lean_training import Dropout, random_mask


@pytest.mark.parametrize("p", [0.0005, 0.1, 0.5, 0.9999])
def test_share_and_mean(p):
    n = 400_001
    x = torch.ones(n)
    y = Dropout(p).train()(x)
    share = (y == 0).float().mean().item()
    assert abs(share - p) < 5 * (p * (1 - p) / n) ** 0.5 + 1 / 65536
    left = y[y != 0]
    assert len(left) and gap(left * (1 - p), torch.ones_like(left)) < 1e-6
    assert torch.equal(x, torch.ones(n))
    assert not random_mask(x, 0.999999).all()  # the threshold stays within the numbers drawn


def test_neighbours_are_independent():
    """Four elements are made of one random number: whether one stays says nothing of the next."""
    mask = random_mask(torch.empty(1 << 20), 0.5).view(-1, 4).float()
    assert (mask.mean(dim=0) - 0.5).abs().max() < 0.005
    assert (torch.corrcoef(mask.t()) - torch.eye(4)).abs().max() < 0.01


@pytest.mark.parametrize("shape", [(3,), (2, 3, 11), (0, 4), ()])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_size(shape, dtype):
    x = torch.full(shape, 2.0, dtype=dtype)
    y = Dropout(0.5).train()(x)
    assert y.shape == x.shape and y.dtype == dtype
    assert ((y == 0) | (y == 4)).all()


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


def test_a_seed_fixes_it():
    x, dropout = torch.ones(1001), Dropout(0.4).train()
    masks = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        masks.append(dropout(x))
    assert torch.equal(masks[0], masks[1]) and not torch.equal(masks[0], masks[2])


def test_identity():
    """Without dropout, and in evaluation."""
    x = torch.randn(5, 3)
    assert Dropout(0.0).train()(x) is x
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(1.0).train()(x).count_nonzero() == 0


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
    """What is dropped comes from the branch, after its last map; its input stays whole."""
    model, _ = build_model(dropout=0.5)
    branch = model.encoder.layers[0].feed_forward.train()
    nn.init.zeros_(branch.post.alpha)
    nn.init.ones_(branch.post.beta)
    y = branch(torch.full((50, 40, 16), 7.0))
    assert set(y.unique().tolist()) == {7.0, 9.0}
    assert abs((y == 7).float().mean() - 0.5) < 0.02
