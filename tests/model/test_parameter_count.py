"""Numbers of parameters: those of the paper's sizes, written out."""

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
ONE = {"share_all_embeddings": True}
SHARING = (({}, 3), ({"share_decoder_input_output_embed": True}, 2), (ONE, 1))


def expected_count(d, hidden, layers, vocabulary, positions, tables, mixing):
    """*tables*: embeddings of V x d; *mixing*: weights of A in an encoder and a decoder layer."""
    around = 4 * d  # alpha and beta, before and after a branch
    feed_forward = around + hidden * d + hidden + d * hidden + d
    attention = around + 4 * (d * d + d)
    encoder = (around + mixing[0] + positions) + feed_forward
    decoder = (around + mixing[1] + positions) + attention + feed_forward
    final = 2 * 2 * d
    return tables * vocabulary * d + layers * (encoder + decoder) + final


def build(arch, vocabulary, positions, **options):
    """A model of the architecture's own sizes, without memory."""
    positions = dict(max_source_positions=positions, max_target_positions=positions)
    options = dict.fromkeys(SMALL) | positions | options
    with torch.device("meta"):
        return build_model(arch, randomize=False, vocabulary=vocabulary, **options)[0]


def numbers(parameters):
    return sum(parameter.numel() for parameter in parameters)


def count(*args, **options):
    return numbers(build(*args, **options).parameters())


@pytest.mark.parametrize("arch", SIZES)
def test_paper_model(arch):
    mixing = (64 * 64, 64 * 64)
    for options, tables in SHARING:
        expected = expected_count(*SIZES[arch], 1000, 64, tables, mixing)
        assert count(arch, 1000, 64, **options) == expected


def test_toeplitz_and_gated():
    """A weight for each distance and head, and a bias a head, seven more than the paper has; under
    a gate also three C x C maps with a bias each."""
    size = SIZES["resmlp_mt_6"]
    toeplitz = expected_count(*size, 1000, 64, 1, (8 * 127, 8 * 64)) + size[2] * 2 * 7 * 64
    assert count("resmlp_mt_toeplitz_6", 1000, 64, **ONE) == toeplitz
    maps = size[2] * 2 * 3 * (512 * 512 + 512)
    assert count("resmlp_mt_gated_6", 1000, 64, **ONE) == toeplitz + maps
