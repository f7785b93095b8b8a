"""Folding: every affine map is absorbed, and nothing else changes."""

from types import SimpleNamespace

import pytest
import torch
from helpers import (
    ARCHITECTURES,
    MIXINGS,
    POSITIONS,
    assert_same_hypotheses,
    build_model,
    gap,
    mixings,
    pad_batch,
    random_sentences,
    translate,
)
from model_checks import affine_names, assert_folding_changes_nothing, random_words
from torch import nn

from resmlp_mt.inference.folding import fold_
from resmlp_mt.modules.beam_history import BeamHistory
from resmlp_mt.modules.mixing_kinds import CONVOLUTIONS

SHARING = ({}, {"share_decoder_input_output_embed": True}, {"share_all_embeddings": True})


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


def fold_and_compare(model, dictionary):
    *sources, prev = inputs(dictionary)
    assert_folding_changes_nothing(model, sources, prev, 1e-4)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@mixings
def test_named_architectures(arch, kind, heads):
    options = {"token_mixing": kind, "token_mixing_heads": heads}
    options.update(encoder_layers=None, decoder_layers=None)  # the architecture's own
    # std: above that, rounding alone moves 12 + 12 random layers by more than 1e-4
    model, dictionary = build_model(arch, std=0.2, **options)
    fold_and_compare(model, dictionary)
    assert affine_names(model) == []


@mixings
@pytest.mark.parametrize("normalization", ["affine", "layernorm"])
@pytest.mark.parametrize("no_bias", [False, True])
@pytest.mark.parametrize("sharing", SHARING)
def test_options(kind, normalization, heads, no_bias, sharing):
    model, dictionary = build_model(
        token_mixing=kind,
        normalization=normalization,
        token_mixing_heads=heads,
        no_token_mixing_bias=no_bias,
        **sharing,
    )
    fold_and_compare(model, dictionary)
    assert affine_names(model) == []  # a LayerNorm is no Affine and stays


@pytest.mark.parametrize(
    "options",
    [
        {"decoder_output_dim": 8},
        {"encoder_embed_dim": 12, "decoder_embed_dim": 16},
        {"no_decoder_final_norm": True},
        {"checkpoint_activations": True},
        {"encoder_layerdrop": 0.5, "decoder_layerdrop": 0.5},
        {"layernorm_embedding": True},
        {"token_positional_embeddings": True},
        {"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 4},
    ],
    ids=lambda options: next(iter(options)),
)
def test_fairseq_options(options):
    model, dictionary = build_model(**options)
    fold_and_compare(model, dictionary)
    assert affine_names(model) == []


@pytest.mark.parametrize(
    "options, stays",
    [
        ({"adaptive_softmax_cutoff": "10,20"}, "decoder.layer_norm"),
        ({"no_cross_attention": True}, "encoder.layer_norm"),
    ],
    ids=["adaptive_softmax", "no_cross_attention"],
)
def test_what_stays(options, stays):
    """Where no linear map follows."""
    model, dictionary = build_model(**options)
    fold_and_compare(model, dictionary)
    assert affine_names(model) == [stays]


@mixings
def test_beam_search(kind, heads):
    model, dictionary = build_model(
        token_mixing=kind, token_mixing_heads=heads, vocabulary=8, seed=4
    )
    sentences = random_sentences(dictionary, (3, 12, 1, 7))
    unfolded = translate(model, dictionary, sentences)
    fold_(model)
    for some, others in zip(translate(model, dictionary, sentences), unfolded):
        assert_same_hypotheses(some, others)


@pytest.mark.parametrize("sharing", SHARING[1:], ids=["decoder", "all"])
def test_shared_embedding_is_left_alone(sharing):
    model, _ = build_model(**sharing)
    before = model.decoder.embed_tokens.weight.clone()
    fold_(model)
    assert torch.equal(model.decoder.embed_tokens.weight, before)
    assert model.decoder.output_projection.weight is not model.decoder.embed_tokens.weight
    assert ("share_all_embeddings" in sharing) == (
        model.encoder.embed_tokens.weight is model.decoder.embed_tokens.weight
    )


def test_twice_is_harmless():
    model, dictionary = build_model()
    fold_(model)
    once = logits_of(model, dictionary)
    fold_(model)
    assert torch.equal(logits_of(model, dictionary), once)


@mixings
@pytest.mark.parametrize("normalization", ["affine", "layernorm"])
@pytest.mark.parametrize("place", [torch.bfloat16, torch.float64, "meta"], ids=str)
def test_stays_in_its_type_and_place(kind, heads, normalization, place):
    """fairseq makes a model float16, and takes it to a GPU, before it asks for this."""
    model, _ = build_model(token_mixing=kind, token_mixing_heads=heads, normalization=normalization)
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
    for layer in layers:
        nn.init.constant_(layer.token_mixing.pre.alpha, 0.01)
        nn.init.constant_(layer.token_mixing.pre.beta, 0.5)
        for parameter in layer.token_mixing.mixing.parameters():
            if parameter.dim() > 1:
                nn.init.constant_(parameter, 4.0 if kind in CONVOLUTIONS else 0.5)
    model.half()
    x = torch.full((POSITIONS, 2, 16), 6000.0, dtype=torch.float16)
    expected = [layer.token_mixing(x) for layer in layers]
    fold_(model)
    for layer, y in zip(layers, expected):
        assert gap(layer.token_mixing(x), y) < 2e-3
    history, newest = BeamHistory(), []
    for word in x:
        history.advance(2, x.device)
        newest.append(layers[1].token_mixing(word.unsqueeze(0), history=history))
    assert gap(torch.cat(newest), expected[1]) < 2e-3


def test_fairseq_asks_for_it():
    """generate, interactive and the hub interface call ``prepare_for_inference_``."""
    model, dictionary = build_model()
    before = logits_of(model, dictionary)
    model.prepare_for_inference_(SimpleNamespace(generation=SimpleNamespace(beam=4)))
    assert affine_names(model) == []
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
