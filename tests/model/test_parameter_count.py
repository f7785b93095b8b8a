"""Numbers of parameters: those of the paper's sizes, written out, and those that a page says."""

import re
from pathlib import Path

import pytest
import torch
from helpers import SMALL, build_model

from resmlp_mt.model.architectures import ARCHITECTURES

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


def test_the_table_of_the_architectures():
    """In docs/options.md: one row an architecture, its sizes and both counts."""
    page = Path(__file__).parents[2] / "docs" / "options.md"
    table = re.findall(r"^\| `(resmlp_mt\w*)` \| (.*) \|$", page.read_text(), re.MULTILINE)
    found = {}
    for arch in ARCHITECTURES:
        model = build(arch, 32768, 256, share_all_embeddings=True)
        width, attention = model.decoder.embed_dim, model.decoder.layers[0].cross_attention.attn
        mixing = [p for name, p in model.named_parameters() if "token_mixing.mixing." in name]
        found[arch] = (
            f"{len(model.encoder.layers)} + {len(model.decoder.layers)} | {width} | "
            f"{model.decoder.layers[0].feed_forward.fc1.out_features} | {attention.num_heads} | "
            f"{numbers(model.parameters()):,} | {numbers(mixing):,}"
        )
    assert dict(table) == found
