"""The mixing matrices: shapes, first weights, what is saved. The reference model has the sums."""

import pytest
import torch
from helpers import build_model
from torch import nn

from resmlp_mt.model.token_mixing import ToeplitzTokenMixing, TokenMixing

CHANNELS, POSITIONS, LENGTH = 6, 12, 9
matrices = pytest.mark.parametrize("kind", [TokenMixing, ToeplitzTokenMixing])


def test_none_has_no_weights():
    model, _ = build_model(token_mixing="none")
    assert not [name for name, _ in model.named_parameters() if "token_mixing" in name]


@matrices
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("causal", [False, True])
def test_matrix(kind, heads, causal):
    """The submatrix for a length, triangular in the decoder; Toeplitz where it should be."""
    mixing = kind(CHANNELS, POSITIONS, causal, heads=heads)
    nn.init.normal_(mixing.weight)
    whole = mixing.matrix(POSITIONS)
    assert whole.shape == (heads, POSITIONS, POSITIONS)
    assert (whole.triu(1).count_nonzero() == 0) == causal
    assert torch.equal(mixing.matrix(LENGTH), whole[:, :LENGTH, :LENGTH])
    diagonals = [whole.diagonal(d, dim1=1, dim2=2) for d in range(1 - POSITIONS, POSITIONS)]
    same = all(torch.equal(d, d[:, :1].expand_as(d)) for d in diagonals)
    assert same == (kind is ToeplitzTokenMixing)


@matrices
def test_first_weights(kind):
    mixing = kind(4, 400, False, heads=4, init_std=0.05)
    assert abs(mixing.matrix(400).std().item() - 0.05) < 0.005
    assert torch.equal(mixing.bias, torch.zeros(4, 400))


def test_the_saved_matrix_is_triangular():
    """As drawn and after a step of training: what a user plots is what is computed."""
    mixing = TokenMixing(CHANNELS, POSITIONS, True, heads=2)
    optimizer = torch.optim.Adagrad(mixing.parameters(), lr=0.1, weight_decay=0.01)
    for _ in range(2):
        weight = mixing.state_dict()["weight"]
        assert weight.triu(1).count_nonzero() == 0
        assert weight.count_nonzero() == 2 * POSITIONS * (POSITIONS + 1) // 2
        mixing(torch.randn(POSITIONS, 4, CHANNELS)).square().sum().backward()
        optimizer.step()
