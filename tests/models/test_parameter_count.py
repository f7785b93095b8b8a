"""Numbers of parameters against the paper's sizes, written out."""

import pytest
import torch
from helpers import SMALL, build_model

# d, hidden, layers on each side
SIZES = {
    "resmlp_mt_6": (512, 2048, 6),
    "resmlp_mt_12": (512, 2048, 12),
    "resmlp_mt_tiny": (128, 256, 4),
}
# options, and the embedding tables that are left
SHARING = (
    ({}, 3),
    ({"share_decoder_input_output_embed": True}, 2),
    ({"share_all_embeddings": True}, 1),
)


def expected_count(d, hidden, layers, vocabulary, positions, tables, mixing):
    """*tables*: embeddings of V x d; *mixing*: weights of A in an encoder and a decoder layer."""
    around = 4 * d  # alpha and beta, before and after a branch
    feed_forward = around + hidden * d + hidden + d * hidden + d
    attention = around + 4 * (d * d + d)
    encoder = (around + mixing[0] + positions) + feed_forward
    decoder = (around + mixing[1] + positions) + attention + feed_forward
    final = 2 * 2 * d
    return tables * vocabulary * d + layers * (encoder + decoder) + final


def count(arch, vocabulary, positions, **options):
    positions = dict(max_source_positions=positions, max_target_positions=positions)
    with torch.device("meta"):
        model, _ = build_model(
            arch,
            randomize=False,
            vocabulary=vocabulary,
            **(dict.fromkeys(SMALL) | positions | options),
        )
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("arch", SIZES)
def test_paper_model(arch):
    mixing = (64 * 64, 64 * 64)
    for options, tables in SHARING:
        expected = expected_count(*SIZES[arch], 1000, 64, tables, mixing)
        assert count(arch, 1000, 64, **options) == expected


def test_toeplitz():
    """A weight for each distance and head, and a bias a head: seven more than the paper has."""
    size = SIZES["resmlp_mt_6"]
    expected = expected_count(*size, 1000, 64, 1, (8 * 127, 8 * 64)) + size[2] * 2 * 7 * 64
    assert count("resmlp_mt_toeplitz_6", 1000, 64, share_all_embeddings=True) == expected


def test_gated():
    """Three C x C maps with a bias each beside the Toeplitz A."""
    size = SIZES["resmlp_mt_6"]
    maps = size[2] * 2 * 3 * (512 * 512 + 512)
    expected = count("resmlp_mt_toeplitz_6", 1000, 64, share_all_embeddings=True) + maps
    assert count("resmlp_mt_gated_6", 1000, 64, share_all_embeddings=True) == expected


OWN = {
    "gated": {"token_mixing": "gated", "token_mixing_heads": 8},
    "toeplitz": {"token_mixing": "toeplitz", "token_mixing_heads": 8},
    "conv": {"token_mixing": "conv", "token_positional_embeddings": True},
}


@pytest.mark.parametrize("kind", OWN)
@pytest.mark.parametrize("layers", ["6", "12"])
def test_architectures_of_our_own(kind, layers):
    ours = count(f"resmlp_mt_{kind}_{layers}", 1000, 64, share_all_embeddings=True)
    paper = f"resmlp_mt_{layers}"
    assert ours == count(paper, 1000, 64, share_all_embeddings=True, **OWN[kind])
    assert ours != count(paper, 1000, 64, share_all_embeddings=True)
