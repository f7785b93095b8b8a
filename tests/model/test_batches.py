"""Padding, beams and word-by-word decoding: what properties and reference model do not say."""

import pytest
import torch
from helpers import build_model, gap, pad_batch, random_sentences
from model_checks import assert_encoder_ignores_padding


@pytest.mark.parametrize("left", [True, False], ids=["left", "right"])
def test_embeddings_that_are_given(left):
    model, dictionary = build_model()
    sentences = random_sentences(dictionary, (3, 12, 1, 7))
    vectors = torch.randn(4, 12, 16)
    assert_encoder_ignores_padding(model, dictionary, sentences, left, 1e-4, vectors)


@torch.no_grad()
def test_each_row_padded_on_a_side_of_its_own():
    model, dictionary = build_model()
    long, short = random_sentences(dictionary, (9, 5))
    pads = torch.full((4,), dictionary.pad())
    batch = torch.stack([long, torch.cat([pads, short]), torch.cat([short, pads])])
    states = model.encoder(batch)["encoder_out"][0]
    alone = model.encoder(short.unsqueeze(0))["encoder_out"][0]
    assert gap(states[4:, 1], alone[:, 0]) < 1e-4 and gap(states[:5, 2], alone[:, 0]) < 1e-4


@torch.no_grad()
def test_two_decodings_do_not_meet():
    """Two states of one model, in turn, as in an ensemble of a model with itself."""
    model, dictionary = build_model()
    source = pad_batch(random_sentences(dictionary, (4, 4)), dictionary)
    prevs = [torch.randint(4, len(dictionary), (2, 6)) for _ in range(2)]
    expected = [model(source, None, prev)[0] for prev in prevs]
    encoder_out, states = model.encoder(source), ({}, {})
    for t in range(6):
        for prev, state, logits in zip(prevs, states, expected):
            step, _ = model.decoder(prev[:, : t + 1], encoder_out, state)
            assert gap(step[:, 0], logits[:, t]) < 2e-4


def test_the_encoder_output_follows_beam_search():
    """It stays the very object where beams move within their sentence."""
    model, dictionary = build_model()
    out = model.encoder(pad_batch(random_sentences(dictionary, (3, 8, 5)), dictionary, left=True))
    first = model.encoder.reorder_encoder_out(out, torch.arange(3).repeat_interleave(2))
    for order in ([1, 0, 2, 3, 5, 4], [1, 1, 2, 2, 4, 4], [0, 1, 2, 3, 4, 5]):
        assert model.encoder.reorder_encoder_out(first, torch.tensor(order)) is first
    moved, rows = first, torch.tensor([0, 0, 1, 1, 2, 2])
    for order in ([2, 3, 0, 1, 4, 5], [5, 4, 0], [1, 1, 2, 0, 0]):
        order = torch.tensor(order)
        moved, rows = model.encoder.reorder_encoder_out(moved, order), rows[order]
        assert torch.equal(moved["encoder_out"][0], out["encoder_out"][0][:, rows])
        assert torch.equal(moved["encoder_padding_mask"][0], out["encoder_padding_mask"][0][rows])


@torch.no_grad()
def test_keys_and_values_once_a_sentence():
    """Whatever the number of beams, and however many words are decoded."""
    model, dictionary = build_model()
    seen = []
    for layer in model.decoder.layers:
        layer.cross_attention.attn.k_proj.register_forward_hook(
            lambda module, inputs, keys: seen.append(keys.shape[1])
        )
    source = pad_batch(random_sentences(dictionary, (3, 8, 5)), dictionary)
    beams = torch.arange(3).repeat_interleave(4)
    encoder_out = model.encoder.reorder_encoder_out(model.encoder(source), beams)
    tokens, state = torch.full((12, 5), dictionary.eos()), {}
    for length in range(1, 6):
        model.decoder(tokens[:, :length], encoder_out, state)
    assert seen == [3, 3]  # the sentences, in each of two layers
