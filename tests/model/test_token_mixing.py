"""Each kind of --token-mixing against a plain formula; the reference model has the others."""

import pytest
import torch
from helpers import build_model
from torch import nn
from torch.nn import functional as F

from resmlp_mt.model.convolutional_mixing import (
    DepthwiseConvTokenMixing,
    SeparableConvTokenMixing,
)
from resmlp_mt.model.mlp_mixing import MlpTokenMixing
from resmlp_mt.model.token_mixing import MATRICES

CHANNELS, POSITIONS, LENGTH, BATCH = 6, 12, 9, 4
causal_ = pytest.mark.parametrize("causal", [False, True])
matrices = pytest.mark.parametrize("kind", MATRICES)


def randomized(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module


def by_conv1d(x, weight, bias, causal):
    """PyTorch's own convolution of each channel; T x B x C."""
    reach = weight.size(-1) - 1
    left = reach if causal else reach // 2
    padded = F.pad(x.permute(1, 2, 0), (left, reach - left))
    return F.conv1d(padded, weight.unsqueeze(1), bias, groups=CHANNELS).permute(2, 0, 1)


@causal_
@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_depthwise_convolution(causal, kernel_size):
    mixing = randomized(DepthwiseConvTokenMixing(CHANNELS, POSITIONS, causal, kernel_size))
    x = torch.randn(LENGTH, BATCH, CHANNELS)
    expected = by_conv1d(x, mixing.weight, mixing.bias, causal)
    torch.testing.assert_close(mixing(x), expected)
    by_matrix = torch.einsum("cts,sbc->tbc", mixing.matrix(LENGTH), x) + mixing.bias
    torch.testing.assert_close(by_matrix, expected)


@causal_
def test_separable_convolution(causal):
    mixing = randomized(SeparableConvTokenMixing(CHANNELS, POSITIONS, causal))
    x = torch.randn(LENGTH, BATCH, CHANNELS)
    depthwise = by_conv1d(x, mixing.depthwise.weight, None, causal)
    expected = F.linear(depthwise, mixing.pointwise.weight, mixing.pointwise.bias)
    torch.testing.assert_close(mixing(x), expected)


@causal_
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("expansion", [1, 4])
def test_mlp(causal, heads, expansion):
    mixing = randomized(MlpTokenMixing(CHANNELS, POSITIONS, causal, heads, expansion))
    x = torch.randn(LENGTH, BATCH, CHANNELS)
    groups = x.view(LENGTH, BATCH, heads, -1)

    def product(a, h):
        weight = a.weight[:, :LENGTH, :LENGTH]
        y = torch.einsum("hts,sbhc->tbhc", weight.tril() if causal else weight, h)
        return y if a.bias is None else y + a.bias[:, :LENGTH].t().view(LENGTH, 1, heads, 1)

    expected = sum(
        product(second, F.gelu(product(first, groups)))
        for first, second in zip(mixing.first, mixing.second)
    )
    assert sum(second.bias is not None for second in mixing.second) == 1
    torch.testing.assert_close(mixing(x), expected.reshape(x.shape))


def test_none_has_no_weights():
    model, _ = build_model(token_mixing="none")
    assert not [name for name, _ in model.named_parameters() if "token_mixing" in name]


@matrices
@pytest.mark.parametrize("heads", [1, 3])
@causal_
def test_matrix(kind, heads, causal):
    """What is plotted and pruned: the submatrix for a length, triangular in the decoder."""
    mixing = randomized(MATRICES[kind](CHANNELS, POSITIONS, causal, heads=heads))
    whole = mixing.matrix(POSITIONS)
    assert whole.shape == (heads, POSITIONS, POSITIONS)
    assert (whole.triu(1).count_nonzero() == 0) == causal
    assert torch.equal(mixing.matrix(LENGTH), whole[:, :LENGTH, :LENGTH])
    diagonals = [whole.diagonal(d, dim1=1, dim2=2) for d in range(1 - POSITIONS, POSITIONS)]
    same = all(torch.equal(d, d[:, :1].expand_as(d)) for d in diagonals)
    assert same == (kind == "toeplitz")


@matrices
def test_first_weights(kind):
    """Drawn with the given standard deviation; the bias starts at zero."""
    mixing = MATRICES[kind](4, 400, False, heads=4, init_std=0.05)
    assert abs(mixing.matrix(400).std().item() - 0.05) < 0.005
    assert torch.equal(mixing.bias, torch.zeros(4, 400))


def test_the_saved_matrix_is_triangular():
    """As drawn and after a step of training: what a user plots is what is computed."""
    mixing = MATRICES["linear"](CHANNELS, POSITIONS, True, heads=2)
    optimizer = torch.optim.Adagrad(mixing.parameters(), lr=0.1, weight_decay=0.01)
    for _ in range(2):
        weight = mixing.state_dict()["weight"]
        assert weight.triu(1).count_nonzero() == 0
        assert weight.count_nonzero() == 2 * POSITIONS * (POSITIONS + 1) // 2
        mixing(torch.randn(POSITIONS, BATCH, CHANNELS)).square().sum().backward()
        optimizer.step()
