"""The properties of every model, with some examples drawn for each kind of token mixing."""

import pytest
import torch
from model_properties import PROPERTIES, hold, tolerance_of
from model_strategies import Case
from properties import count, search

from resmlp_mt.model.mixing_kinds import TOKEN_MIXING
from resmlp_mt.model.token_mixing import TokenMixing


@pytest.mark.parametrize("kind", TOKEN_MIXING)
@pytest.mark.parametrize("name", PROPERTIES)
def test_holds(name, kind):
    assert sum(hold(name, kind, "suite").values()) >= 3


def test_a_failure_is_named_with_its_example(monkeypatch, capsys):
    """A matrix that sees the future: found, made plain, and told in a line."""
    whole = TokenMixing.matrix
    monkeypatch.setattr(
        TokenMixing, "matrix", lambda self, n: whole(self, n) + self.weight[0, 0, -1]
    )
    held, lost = search(["linear", "toeplitz"], ["causality"], "suite", 1)
    (line,) = lost
    assert line.startswith("linear: ") and "causality(" in line and "\n" not in line
    assert "'token_mixing': 'linear'" in line and line.endswith("AssertionError:")
    assert held["linear"] == {} and count(held) == sum(held["toeplitz"]["causality"].values()) > 0
    assert "1 failures so far" in capsys.readouterr().out


def case(dtype, **options):
    options = {"normalization": "affine", "activation_fn": "relu", **options}
    return Case(options, dtype, 0, [3, 2], [2, 4], True)


def test_tolerance_of_16_bits_is_measured():
    """Small weights, little rounding; and never so much that a wrong result could pass."""
    assert tolerance_of(case(torch.float64)) == 1e-9
    assert tolerance_of(case(torch.float32)) == 1e-3
    half, tolerance = (tolerance_of(case(dtype)) for dtype in (torch.float16, torch.bfloat16))
    assert 0.02 < half < tolerance < 0.22
