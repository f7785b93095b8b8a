"""Affine: the map of eq. 1, how it starts, and what it learns from."""

import pytest
import torch
from helpers import build_model

from resmlp_mt.modules.affine import Affine


def test_equation():
    affine = Affine(5)
    torch.nn.init.normal_(affine.alpha)
    torch.nn.init.normal_(affine.beta)
    x = torch.randn(3, 4, 5)
    expected = torch.stack([affine.alpha[c] * x[..., c] + affine.beta[c] for c in range(5)], -1)
    torch.testing.assert_close(affine(x), expected)


def test_a_token_is_mapped_alike_beside_any_other():
    affine = Affine(5)
    x = torch.randn(3, 4, 5)
    assert torch.equal(affine(x)[1, 2], affine(x[1, 2]))


def test_starts_as_identity():
    x = torch.randn(3, 5)
    assert torch.equal(Affine(5)(x), x)


def test_starts_at_layerscale():
    x = torch.randn(3, 5)
    assert torch.equal(Affine(5, 0.25)(x), 0.25 * x)


def test_gradient():
    affine = Affine(4).double()
    torch.nn.init.normal_(affine.alpha)
    x = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
    inputs = (x, affine.alpha, affine.beta)
    assert torch.autograd.gradcheck(lambda x, a, b: affine(x), inputs)


@pytest.mark.parametrize("layerscale", [0.2, 0.5])
def test_where_the_model_starts(layerscale):
    """alpha = 1 before a branch and after a stack, --layerscale-init after a branch; beta = 0."""
    model, _ = build_model(randomize=False, layerscale_init=layerscale)
    affines = {n: m for n, m in model.named_modules() if isinstance(m, Affine)}
    assert len(affines) == 2 * (2 * 2) + 2 * (2 * 3) + 2
    for name, affine in affines.items():
        first = layerscale if name.endswith(".post") else 1.0
        assert torch.equal(affine.alpha, torch.full((16,), first)), name
        assert torch.equal(affine.beta, torch.zeros(16)), name
