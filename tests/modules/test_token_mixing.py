"""TokenMixing against a plain loop."""

import pytest
import torch

from resmlp_mt.errors import UserError
from resmlp_mt.modules.token_mixing import MATRICES

CHANNELS, POSITIONS = 8, 9
kinds = pytest.mark.parametrize("kind", list(MATRICES))
heads_ = pytest.mark.parametrize("heads", [1, 4])
causal_ = pytest.mark.parametrize("causal", [False, True])


def build(kind, causal, heads=1, bias=True):
    mixing = MATRICES[kind](CHANNELS, POSITIONS, causal, heads=heads, bias=bias)
    for parameter in mixing.parameters():
        torch.nn.init.normal_(parameter)
    return mixing


@torch.no_grad()
def plain_loop(mixing, x):
    """``y[t] = sum_s A[t, s] x[s] + b[t]``, one number at a time; heads are channel groups."""
    length, batch, channels = x.shape
    a = mixing.matrix(mixing.positions)
    y = torch.zeros_like(x)
    for t in range(length):
        for c in range(channels):
            head = c // (channels // mixing.heads)
            for s in range(t + 1 if mixing.causal else length):
                y[t, :, c] += a[head, t, s] * x[s, :, c]
            if mixing.bias is not None:
                y[t, :, c] += mixing.bias[head, t]
    return y


@kinds
@heads_
@causal_
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("length", [1, 5, POSITIONS])
def test_equals_a_plain_loop(kind, heads, causal, bias, length):
    mixing = build(kind, causal, heads, bias)
    assert (mixing.bias is not None) == bias
    x = torch.randn(length, 3, CHANNELS)
    torch.testing.assert_close(mixing(x), plain_loop(mixing, x), rtol=1e-5, atol=1e-5)


@kinds
@heads_
@causal_
def test_batch_uses_the_top_left_submatrix(kind, heads, causal):
    mixing = build(kind, causal, heads)
    whole = mixing.matrix(POSITIONS)
    assert whole.shape == (heads, POSITIONS, POSITIONS)
    for length in range(1, POSITIONS + 1):
        assert torch.equal(mixing.matrix(length), whole[:, :length, :length])


@kinds
@heads_
def test_row_is_a_row_of_the_matrix(kind, heads):
    mixing = build(kind, True, heads)
    for t in range(POSITIONS):
        assert torch.equal(mixing.row(t), mixing.matrix(POSITIONS)[:, t, : t + 1])


@kinds
@heads_
def test_causal_matrix_is_triangular(kind, heads):
    assert torch.equal(
        build(kind, True, heads).matrix(POSITIONS).triu(1), torch.zeros(heads, POSITIONS, POSITIONS)
    )
    assert build(kind, False, heads).matrix(POSITIONS).triu(1).count_nonzero() > 0


def test_saved_linear_matrix_is_triangular():
    """As drawn, before any training: what a user plots is what is computed."""
    mixing = MATRICES["linear"](CHANNELS, POSITIONS, True, heads=2)
    assert mixing.state_dict()["weight"].triu(1).count_nonzero() == 0
    assert mixing.state_dict()["weight"].count_nonzero() == 2 * POSITIONS * (POSITIONS + 1) // 2


@heads_
@causal_
def test_toeplitz_depends_on_the_distance_alone(heads, causal):
    a = build("toeplitz", causal, heads).matrix(POSITIONS)
    for distance in range(1 - POSITIONS, POSITIONS):
        diagonal = a.diagonal(distance, dim1=1, dim2=2)
        assert torch.equal(diagonal, diagonal[:, :1].expand_as(diagonal))
    distances = POSITIONS if causal else 2 * POSITIONS - 1
    assert len(a[0].unique()) == distances + causal  # and the zero above the diagonal


@kinds
@pytest.mark.parametrize("heads", [0, 3, 16, -1])
def test_heads_that_do_not_divide(kind, heads):
    with pytest.raises(UserError, match=rf"--token-mixing-heads {heads} .* {CHANNELS} channels"):
        MATRICES[kind](CHANNELS, POSITIONS, False, heads=heads)


@kinds
def test_first_weights(kind):
    """Drawn with the given standard deviation; the bias starts at zero."""
    mixing = MATRICES[kind](4, 400, False, heads=4, init_std=0.05)
    assert abs(mixing.matrix(400).std().item() - 0.05) < 0.005
    assert torch.equal(mixing.bias, torch.zeros(4, 400))
