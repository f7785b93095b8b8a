"""Folding: what the properties and the reference model do not say of it."""

from types import SimpleNamespace

import pytest
import torch
from helpers import (
    MIXINGS,
    POSITIONS,
    build_model,
    gap,
    mixings,
    pad_batch,
    random_sentences,
)
from model_checks import affine_names, assert_folding_changes_nothing, random_words
from torch import nn

from resmlp_mt.decoding.folding import fold_
from resmlp_mt.decoding.history import BeamHistory
from resmlp_mt.model.mixing_kinds import CONVOLUTIONS


def inputs(dictionary):
    """Sources padded on the left, the same padded on the right, and targets."""
    sources = random_sentences(dictionary, (3, 11, 6))
    torch.manual_seed(5)
    prev = random_words(dictionary, 3, 9)
    return *(pad_batch(sources, dictionary, left) for left in (True, False)), prev


@torch.no_grad()
def logits_of(model, dictionary):
    source, _, prev = inputs(dictionary)
    return model(source, None, prev)[0]


@mixings
@pytest.mark.parametrize("normalization", ["affine", "layernorm"])
def test_every_kind(kind, heads, normalization):
    model, dictionary = build_model(
        token_mixing=kind, token_mixing_heads=heads, normalization=normalization
    )
    *sources, prev = inputs(dictionary)
    assert_folding_changes_nothing(model, sources, prev, 1e-4)
    assert affine_names(model) == []  # a LayerNorm is no Affine and stays


@pytest.mark.parametrize(
    "options, stays",
    [
        ({"decoder_output_dim": 8}, []),
        ({"no_decoder_final_norm": True}, []),
        ({"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 4}, []),
        # where no linear map follows
        ({"adaptive_softmax_cutoff": "10,20"}, ["decoder.layer_norm"]),
        ({"no_cross_attention": True}, ["encoder.layer_norm"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_fairseq_options(options, stays):
    model, dictionary = build_model(**options)
    *sources, prev = inputs(dictionary)
    assert_folding_changes_nothing(model, sources, prev, 1e-4)
    assert affine_names(model) == stays


def test_shared_embedding_is_left_alone():
    model, _ = build_model(share_all_embeddings=True)
    before = model.decoder.embed_tokens.weight.clone()
    fold_(model)
    assert torch.equal(model.decoder.embed_tokens.weight, before)
    assert model.decoder.output_projection.weight is not model.decoder.embed_tokens.weight
    assert model.encoder.embed_tokens.weight is model.decoder.embed_tokens.weight


@mixings
@pytest.mark.parametrize("place", [torch.bfloat16, torch.float64, "meta"], ids=str)
def test_stays_in_its_type_and_place(kind, heads, place):
    """fairseq makes a model float16, and takes it to a GPU, before it asks for this."""
    model, _ = build_model(token_mixing=kind, token_mixing_heads=heads)
    model.to(place)
    before = {(t.dtype, t.device) for t in model.parameters()}
    fold_(model)
    tensors = [*model.parameters(), *model.buffers()]
    assert len(before) == 1
    # the version numbers that fairseq's modules keep stay float32
    assert {(t.dtype, t.device) for t in tensors if t.numel() > 1} == before


@pytest.mark.parametrize("kind, heads", [mixing for mixing in MIXINGS if mixing[0] != "none"])
@torch.no_grad()
def test_large_states_in_float16(kind, heads):
    """A sum of such states overflows. The map before the mixing makes them small, folded too."""
    model, _ = build_model(token_mixing=kind, token_mixing_heads=heads, randomize=False)
    layers = [model.encoder.layers[0], model.decoder.layers[0]]
    # a gate is a product of two states, each of which grows with the weights
    weight = {"gated": 0.1, **dict.fromkeys(CONVOLUTIONS, 4.0)}.get(kind, 0.5)
    for layer in layers:
        nn.init.constant_(layer.token_mixing.pre.alpha, 0.01)
        nn.init.constant_(layer.token_mixing.pre.beta, 0.5)
        for parameter in layer.token_mixing.mixing.parameters():
            if parameter.dim() > 1:
                nn.init.constant_(parameter, weight)
    model.half()
    x = torch.full((POSITIONS, 2, 16), 6000.0, dtype=torch.float16)
    expected = [layer.token_mixing(x) for layer in layers]
    fold_(model)
    for layer, y in zip(layers, expected):
        assert gap(layer.token_mixing(x), y) < 2e-3
    history, newest = BeamHistory(), []
    for word in x:
        history.advance(2, POSITIONS, x.device)
        newest.append(layers[1].token_mixing(word, history=history))
    assert gap(torch.stack(newest), expected[1]) < 2e-3


def test_fairseq_asks_for_it():
    """generate, interactive and the hub call ``prepare_for_inference_``, now and then twice."""
    model, dictionary = build_model()
    before = logits_of(model, dictionary)
    for _ in range(2):
        model.prepare_for_inference_(SimpleNamespace(generation=SimpleNamespace(beam=4)))
        assert affine_names(model) == []
        assert gap(logits_of(model, dictionary), before) < 1e-4
    fold_(model)
    assert gap(logits_of(model, dictionary), before) < 1e-4


def test_in_training_mode_with_layerdrop():
    """LayerDrop hides layers from a loop over them while training; folding must find them all."""
    for seed in range(4):
        model, dictionary = build_model(
            seed=seed, encoder_layerdrop=0.5, decoder_layerdrop=0.5, decoder_layers=4
        )
        before = logits_of(model, dictionary)
        fold_(model.train())
        assert not affine_names(model) and not model.training
        assert gap(logits_of(model, dictionary), before) < 1e-4
