"""Parameters: their numbers, written out for the paper's sizes, and their initial values."""

import pytest
import torch
from helpers import SMALL, build_model

from resmlp_mt.model.layers import Affine

ONE, OUTPUT = {"share_all_embeddings": True}, {"share_decoder_input_output_embed": True}
VOCABULARY, POSITIONS = 1000, 64


def expected_count(layers, tables, mixing):
    """*tables*: embeddings of V x d; *mixing*: weights of A in an encoder and a decoder layer."""
    d, hidden = 512, 2048
    around = 4 * d  # alpha and beta, before and after a branch
    feed_forward = around + hidden * d + hidden + d * hidden + d
    attention = around + 4 * (d * d + d)
    encoder = (around + mixing[0] + POSITIONS) + feed_forward
    decoder = (around + mixing[1] + POSITIONS) + attention + feed_forward
    final = 2 * 2 * d
    return tables * VOCABULARY * d + layers * (encoder + decoder) + final


def count(arch, **options):
    """Parameters of a model of the architecture's own sizes, which takes no memory."""
    positions = dict(max_source_positions=POSITIONS, max_target_positions=POSITIONS)
    options = dict.fromkeys(SMALL) | positions | options
    with torch.device("meta"):
        model, _ = build_model(arch, randomize=False, vocabulary=VOCABULARY, **options)
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("layers", [6, 12])  # on each side
@pytest.mark.parametrize("options, tables", [({}, 3), (OUTPUT, 2), (ONE, 1)])
def test_the_papers_sizes(layers, options, tables):
    expected = expected_count(layers, tables, (64 * 64, 64 * 64))
    assert count(f"resmlp_mt_{layers}", **options) == expected


def test_sizes_of_toeplitz_and_gated():
    """A weight per distance and head, a bias per head; a gate adds three C x C maps."""
    toeplitz = expected_count(6, 1, (8 * 127, 8 * 64)) + 6 * 2 * 7 * 64
    heads = {"token_mixing_heads": 8, **ONE}
    assert count("resmlp_mt_6", token_mixing="toeplitz", **heads) == toeplitz
    maps = 6 * 2 * 3 * (512 * 512 + 512)
    assert count("resmlp_mt_6", token_mixing="gated", **heads) == toeplitz + maps


def test_initial_affine_maps():
    """alpha = 1 before a branch and after a stack, --layerscale-init after a branch; beta = 0."""
    model, _ = build_model(randomize=False, layerscale_init=0.5)
    affines = {n: m for n, m in model.named_modules() if isinstance(m, Affine)}
    assert len(affines) == 2 * (2 * 2) + 2 * (2 * 3) + 2
    for name, affine in affines.items():
        first = 0.5 if name.endswith(".post") else 1.0
        assert torch.equal(affine.alpha, torch.full((16,), first)), name
        assert torch.equal(affine.beta, torch.zeros(16)), name
    model, _ = build_model(normalization="layernorm")
    assert sum(isinstance(m, torch.nn.LayerNorm) for m in model.modules()) == 2 * 2 + 2 * 3 + 2
