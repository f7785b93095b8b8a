"""The kinds of --token-mixing that are no single matrix, each against a plain formula."""

import pytest
import torch
from helpers import build_model
from torch import nn
from torch.nn import functional as F

from resmlp_mt.errors import UserError
from resmlp_mt.modules.beam_history import BeamHistory
from resmlp_mt.modules.convolutional_mixing import (
    ConvTokenMixing,
    DepthwiseConvTokenMixing,
    SeparableConvTokenMixing,
)
from resmlp_mt.modules.mlp_mixing import MlpTokenMixing

CHANNELS, POSITIONS, LENGTH, BATCH = 6, 12, 9, 4
causal_ = pytest.mark.parametrize("causal", [False, True])
taps_ = pytest.mark.parametrize("kernel_size", [1, 3, 5])


def randomized(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module


def by_conv1d(x, weight, bias, causal, groups):
    """PyTorch's own convolution; T x B x C."""
    reach = weight.size(-1) - 1
    left = reach if causal else reach // 2
    padded = F.pad(x.permute(1, 2, 0), (left, reach - left))
    return F.conv1d(padded, weight, bias, groups=groups).permute(2, 0, 1)


@causal_
@taps_
def test_depthwise_equals_conv1d(causal, kernel_size):
    mixing = randomized(DepthwiseConvTokenMixing(CHANNELS, POSITIONS, causal, kernel_size))
    x = torch.randn(LENGTH, BATCH, CHANNELS)
    expected = by_conv1d(x, mixing.weight.unsqueeze(1), mixing.bias, causal, CHANNELS)
    torch.testing.assert_close(mixing(x), expected)
    matrix = mixing.matrix(LENGTH)
    by_matrix = torch.einsum("cts,sbc->tbc", matrix, x) + mixing.bias
    torch.testing.assert_close(by_matrix, expected)


@causal_
@taps_
def test_conv_equals_conv1d(causal, kernel_size):
    mixing = randomized(ConvTokenMixing(CHANNELS, POSITIONS, causal, kernel_size))
    x = torch.randn(LENGTH, BATCH, CHANNELS)
    weight = mixing.taps.weight.view(CHANNELS, kernel_size, CHANNELS).transpose(1, 2)
    torch.testing.assert_close(mixing(x), by_conv1d(x, weight, mixing.taps.bias, causal, 1))


@causal_
def test_separable_is_depthwise_then_linear(causal):
    mixing = randomized(SeparableConvTokenMixing(CHANNELS, POSITIONS, causal))
    x = torch.randn(LENGTH, BATCH, CHANNELS)
    weight = mixing.depthwise.weight.unsqueeze(1)
    expected = F.linear(
        by_conv1d(x, weight, None, causal, CHANNELS), mixing.pointwise.weight, mixing.pointwise.bias
    )
    torch.testing.assert_close(mixing(x), expected)


@causal_
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("expansion", [1, 4])
def test_mlp_equals_its_formula(causal, heads, expansion):
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


@pytest.mark.parametrize("count", [1, 3, 7])
def test_recent_inputs(count):
    """After random reorderings, each hypothesis's own last inputs; zero before the first."""
    generator = torch.Generator().manual_seed(count)
    history, pasts = BeamHistory(), [[] for _ in range(BATCH)]
    for _ in range(6):
        x = torch.randn(BATCH, CHANNELS, generator=generator)
        history.advance(BATCH, x.device)
        pasts = [[*past, row] for past, row in zip(pasts, x)]
        recent = history.recent(0, x, count)
        for row, past in zip(recent, pasts):
            zeros = [torch.zeros(CHANNELS)] * (count - len(past))
            assert torch.equal(row, torch.stack([*zeros, *past[-count:]]))
        order = torch.randint(0, BATCH, (BATCH,), generator=generator)
        history.reorder(order)
        pasts = [list(pasts[r]) for r in order]


@pytest.mark.parametrize(
    "options, said",
    [
        ({"token_mixing": "conv", "token_mixing_kernel_size": 4}, "--token-mixing-kernel-size 4"),
        ({"token_mixing": "conv", "token_mixing_kernel_size": -1}, "--token-mixing-kernel-size -1"),
        ({"token_mixing": "mlp", "token_mixing_expansion": 0}, "--token-mixing-expansion 0"),
        ({"token_mixing": "none", "token_mixing_heads": 4}, "--token-mixing-heads 4"),
        ({"token_mixing": "separable-conv", "token_mixing_heads": 4}, "--token-mixing-heads 4"),
    ],
)
def test_refused(options, said):
    with pytest.raises(UserError) as caught:
        build_model(**options)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_none_has_no_mixing_weights():
    model, _ = build_model(token_mixing="none")
    assert not [name for name, _ in model.named_parameters() if "token_mixing" in name]
