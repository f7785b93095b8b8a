"""Padding never leaks: a sentence gets the same in any batch, padded on either side."""

import pytest
import torch
from helpers import (
    MIXINGS,
    assert_same_hypotheses,
    build_model,
    gap,
    mixings,
    random_sentences,
    translate,
)
from model_checks import assert_decoder_ignores_padding, assert_encoder_ignores_padding

LENGTHS = (3, 12, 1, 7)
sides = pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
norms = pytest.mark.parametrize("normalization", ["affine", "layernorm"])


def build(kind, heads, normalization="affine", **options):
    return build_model(
        token_mixing=kind, token_mixing_heads=heads, normalization=normalization, **options
    )


@mixings
@norms
@sides
@pytest.mark.parametrize("given", [False, True], ids=["lookup", "token_embeddings"])
def test_encoder(kind, heads, normalization, left, given):
    model, dictionary = build(kind, heads, normalization)
    sentences = random_sentences(dictionary, LENGTHS)
    vectors = torch.randn(len(LENGTHS), max(LENGTHS), 16) if given else None
    assert_encoder_ignores_padding(model, dictionary, sentences, left, 1e-4, vectors)


@sides
def test_encoder_with_positional_embeddings(left):
    model, dictionary = build("linear", 1, token_positional_embeddings=True)
    assert model.encoder.embed_positions is not None
    sentences = random_sentences(dictionary, LENGTHS)
    assert_encoder_ignores_padding(model, dictionary, sentences, left, 1e-4)


@mixings
@norms
def test_decoder_pads_on_either_side(kind, heads, normalization):
    model, dictionary = build(kind, heads, normalization)
    sources = random_sentences(dictionary, LENGTHS)
    targets = random_sentences(dictionary, (5, 2, 11, 1), seed=1)
    assert_decoder_ignores_padding(model, dictionary, sources, targets, 1e-4)


# without mixing many orders of the same words score the same: which are found is chance
@pytest.mark.parametrize("kind, heads", [mixing for mixing in MIXINGS if mixing[0] != "none"])
@sides
def test_beam_search(kind, heads, left):
    """Translations, scores, attention and alignment are the same alone and in a batch."""
    lengths = set()
    for seed in range(5):
        # few words, so that a random model ends its sentences at different lengths
        model, dictionary = build(kind, heads, seed=seed, vocabulary=8)
        sentences = random_sentences(dictionary, LENGTHS)
        together = translate(model, dictionary, sentences, left)
        for sentence, hypotheses in zip(sentences, together):
            alone = translate(model, dictionary, [sentence], left)[0]
            assert_same_hypotheses(hypotheses, alone)
            lengths.update(len(h["tokens"]) for h in alone)
            for a, b in zip(hypotheses, alone):
                pads, width = max(LENGTHS) - len(sentence), len(sentence)
                attention = a["attention"][pads:] if left else a["attention"][:width]
                assert gap(attention, b["attention"]) < 1e-4
    assert len(lengths) > 1, "no sentence was finished before another: the test shows too little"


@torch.no_grad()
def test_each_row_padded_on_a_side_of_its_own():
    model, dictionary = build_model()
    long, short = random_sentences(dictionary, (9, 5))
    pads = torch.full((4,), dictionary.pad())
    batch = torch.stack([long, torch.cat([pads, short]), torch.cat([short, pads])])
    states = model.encoder(batch)["encoder_out"][0]
    alone = model.encoder(short.unsqueeze(0))["encoder_out"][0]
    assert gap(states[4:, 1], alone[:, 0]) < 1e-4 and gap(states[:5, 2], alone[:, 0]) < 1e-4
