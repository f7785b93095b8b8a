"""Padding never leaks: what the properties and the reference model do not say of it."""

import pytest
import torch
from helpers import (
    assert_same_hypotheses,
    build_model,
    gap,
    random_sentences,
    translate,
)
from model_checks import assert_encoder_ignores_padding

LENGTHS = (3, 12, 1, 7)
sides = pytest.mark.parametrize("left", [True, False], ids=["left", "right"])


@sides
def test_embeddings_that_are_given(left):
    model, dictionary = build_model()
    sentences = random_sentences(dictionary, LENGTHS)
    vectors = torch.randn(len(LENGTHS), max(LENGTHS), 16)
    assert_encoder_ignores_padding(model, dictionary, sentences, left, 1e-4, vectors)


@sides
@pytest.mark.parametrize("kind, heads", [("linear", 1), ("toeplitz", 4), ("conv", 1)])
def test_beam_search(kind, heads, left):
    """Translations, scores, attention and alignment are the same alone and in a batch."""
    lengths = set()
    for seed in range(3):
        # few words, so that a random model ends its sentences at different lengths
        model, dictionary = build_model(
            token_mixing=kind, token_mixing_heads=heads, seed=seed, vocabulary=8
        )
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
