"""Padding never leaks: a sentence gets the same in any batch, padded on either side."""

import pytest
import torch
from helpers import (
    MIXINGS,
    assert_same_hypotheses,
    build_model,
    gap,
    mixings,
    pad_batch,
    random_sentences,
    shift,
    translate,
)

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
@torch.no_grad()
def test_encoder(kind, heads, normalization, left, given):
    """Every entry of the encoder's output, at the positions of the tokens that were given."""
    model, dictionary = build(kind, heads, normalization)
    sentences = random_sentences(dictionary, LENGTHS)
    tokens = pad_batch(sentences, dictionary, left)
    vectors = torch.randn(*tokens.shape, 16) if given else None
    batch = model.encoder(tokens, return_all_hiddens=True, token_embeddings=vectors)
    assert torch.equal(batch["encoder_padding_mask"][0], tokens.eq(dictionary.pad()))
    assert batch["src_lengths"][0].flatten().tolist() == list(LENGTHS)
    for i, sentence in enumerate(sentences):
        real = tokens[i].ne(dictionary.pad())
        own = vectors[i : i + 1, real] if given else None
        alone = model.encoder(sentence[None], return_all_hiddens=True, token_embeddings=own)
        assert gap(batch["encoder_out"][0][real, i], alone["encoder_out"][0][:, 0]) < 1e-4
        assert gap(batch["encoder_embedding"][0][i, real], alone["encoder_embedding"][0][0]) < 1e-4
        assert len(batch["encoder_states"]) == len(alone["encoder_states"]) == 3
        for a, b in zip(batch["encoder_states"], alone["encoder_states"]):
            assert gap(a[real, i], b[:, 0]) < 1e-4


@sides
@torch.no_grad()
def test_encoder_with_positional_embeddings(left):
    model, dictionary = build("linear", 1, token_positional_embeddings=True)
    assert model.encoder.embed_positions is not None
    sentences = random_sentences(dictionary, LENGTHS)
    tokens = pad_batch(sentences, dictionary, left)
    states = model.encoder(tokens)["encoder_out"][0]
    for i, sentence in enumerate(sentences):
        alone = model.encoder(sentence[None])["encoder_out"][0]
        assert gap(states[tokens[i].ne(dictionary.pad()), i], alone[:, 0]) < 1e-4


@mixings
@norms
@torch.no_grad()
def test_decoder_pads_on_either_side(kind, heads, normalization):
    """Features, layer by layer, and attention at the positions of the words that were given."""
    model, dictionary = build(kind, heads, normalization)
    encoder_out = model.encoder(pad_batch(random_sentences(dictionary, LENGTHS), dictionary, True))
    targets = [shift(s) for s in random_sentences(dictionary, (5, 2, 11, 1), seed=1)]
    results = []
    for left in (True, False):
        prev = pad_batch(targets, dictionary, left)
        features, extra = model.decoder(prev, encoder_out, features_only=True)
        real = prev.ne(dictionary.pad())
        states = [state.transpose(0, 1)[real] for state in extra["inner_states"]]
        results.append([features[real], extra["attn"][0][real], *states])
    for on_left, on_right in zip(*results):
        assert gap(on_left, on_right) < 1e-4
    alone, _ = model.decoder(
        targets[0][None],
        model.encoder.reorder_encoder_out(encoder_out, torch.tensor([0])),
        features_only=True,
    )
    assert gap(results[0][0][:5], alone[0]) < 1e-4


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
