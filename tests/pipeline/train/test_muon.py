"""``--optimizer muon`` in fairseq-train, and its steps."""

import copy

import pytest
import torch
from fairseq_programs import LAST, RECIPE, SMALL_MODEL, train, unlike
from torch import nn

from resmlp_mt.errors import UserError
from resmlp_mt.muon import FairseqMuon, Muon, MuonConfig, orthogonal


@pytest.mark.parametrize("shape", [(3, 40, 40), (1, 16, 64), (2, 1, 7)])
def test_singular_values(shape):
    x = torch.randn(shape) * 100
    found = orthogonal(x)
    assert found.shape == x.shape and found.dtype == x.dtype
    values = torch.linalg.svdvals(found)
    assert values.min() > 0.3 and values.max() < 1.4
    # the same rows and columns, up to signs of rounding
    u, _, v = torch.linalg.svd(x, full_matrices=False)
    assert (found * (u @ v)).sum() > 0.85 * found.norm() * (u @ v).norm()
    assert orthogonal(torch.zeros(shape)).isfinite().all()


def test_matrices_and_the_rest():
    """Vectors, stacks and embeddings take AdamW's steps; a matrix's step has the size of lr."""
    shapes = [(8,), (2, 4, 4), (64, 8), (8, 16), (16, 8)]
    ours = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = copy.deepcopy(ours[:3])
    options = {"lr": 0.01, "betas": (0.9, 0.98), "weight_decay": 0.1}
    muon, adam = Muon(ours, **options), torch.optim.AdamW(theirs, **options)
    for _ in range(3):
        before = [w.detach().clone() for w in ours]
        for w, v in zip(ours, [*theirs, None, None]):
            w.grad = torch.randn_like(w)
            if v is not None:
                v.grad = w.grad.clone()
        muon.step(), adam.step()
    assert all(torch.equal(w, v) for w, v in zip(ours, theirs))
    for w, old in zip(ours[3:], before[3:]):
        step = (w - old * (1 - 0.01 * 0.1)) / 0.01
        assert 0.1 < step.pow(2).mean().sqrt() < 0.25
    ours[3].grad = None
    old = ours[3].detach().clone()
    muon.step()
    assert torch.equal(ours[3], old)


def test_refusals():
    with pytest.raises(UserError, match="no weight is a matrix"):
        Muon([nn.Parameter(torch.zeros(100))], lr=0.1)
    for betas in ("x", "1", "(0.9,", "(1, 2, 3)"):
        cfg = MuonConfig(adam_betas=betas, lr=[0.1])
        with pytest.raises(UserError, match="--adam-betas .*: give two numbers"):
            FairseqMuon(cfg, [nn.Parameter(torch.zeros(4, 4))])


def test_a_resumed_training_is_the_same(corpus, tmp_path):
    options = (*SMALL_MODEL, *RECIPE, "--max-tokens", 200, "--optimizer", "muon", "--lr", 0.01)
    train(corpus.data, tmp_path / "whole", *options, "--max-update", 6)
    for updates in (3, 6):
        train(corpus.data, tmp_path / "parts", *options, "--max-update", updates)
    assert unlike(tmp_path / "whole" / LAST, tmp_path / "parts" / LAST) == []
