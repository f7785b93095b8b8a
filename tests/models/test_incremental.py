"""Word-by-word decoding gives the logits of the full pass, whatever beam search does."""

import pytest
import torch
from helpers import POSITIONS, build_model, gap, mixings, pad_batch, random_sentences
from model_checks import Move, assert_decodes_as_in_one_pass

from resmlp_mt.inference.folding import fold_

BEAM, SENTENCES = 4, 3
folded_ = pytest.mark.parametrize("folded", [False, True], ids=["unfolded", "folded"])
norms = pytest.mark.parametrize("normalization", ["affine", "layernorm"])


def build_pair(folded, **options):
    """The model to decode with, and one of the same weights for the full passes."""
    model, dictionary = build_model(**options)
    full, _ = build_model(**options)
    return (fold_(model) or model) if folded else model, full, dictionary


@mixings
@norms
@folded_
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
def test_without_reordering(kind, heads, normalization, folded, bias):
    """To the last position that A has."""
    model, full, dictionary = build_pair(
        folded,
        token_mixing=kind,
        token_mixing_heads=heads,
        normalization=normalization,
        no_token_mixing_bias=not bias,
    )
    source = pad_batch(random_sentences(dictionary, (3, 10)), dictionary, left=True)
    moves = [Move([0, 1])] * (POSITIONS - 1)
    assert_decodes_as_in_one_pass(model, full, dictionary, source, moves, 2e-4)


@mixings
@folded_
@pytest.mark.parametrize("beam_known", [True, False])
def test_beam_reordering(kind, heads, folded, beam_known):
    """What fairseq's generator does: beams repeated, dropped and moved within a sentence, and
    finished sentences taken out of the batch."""
    model, full, dictionary = build_pair(
        folded, seed=heads, token_mixing=kind, token_mixing_heads=heads
    )
    if beam_known:
        model.decoder.set_beam_size(BEAM)
    source = pad_batch(random_sentences(dictionary, (3, 10, 6)), dictionary, left=True)
    leaves = {5: 1, 9: 0}  # step: the sentence (of those left) that is finished
    moves, left = [], SENTENCES
    for step in range(14):
        kept = torch.tensor([s for s in range(left) if s != leaves.get(step)])
        left = len(kept)
        rows = kept.unsqueeze(1) * BEAM + torch.randint(BEAM, (left, BEAM))
        moves.append(Move(rows.flatten().tolist()))
    assert left == 1
    assert_decodes_as_in_one_pass(model, full, dictionary, source, moves, 2e-4, BEAM)


@torch.no_grad()
def test_two_decodings_do_not_meet():
    """Two states of one model, in turn, as in an ensemble of a model with itself."""
    model, full, dictionary = build_pair(False)
    source = pad_batch(random_sentences(dictionary, (4, 4)), dictionary)
    prevs = [torch.randint(4, len(dictionary), (2, 6)) for _ in range(2)]
    expected = [full(source, None, prev)[0] for prev in prevs]
    encoder_out, states = model.encoder(source), ({}, {})
    for t in range(6):
        for prev, state, logits in zip(prevs, states, expected):
            step, _ = model.decoder(prev[:, : t + 1], encoder_out, state)
            assert gap(step[:, 0], logits[:, t]) < 2e-4


@folded_
def test_two_words_at_once(folded):
    model, _, dictionary = build_pair(folded)
    encoder_out = model.encoder(pad_batch(random_sentences(dictionary, (4,)), dictionary))
    prev = torch.randint(4, len(dictionary), (1, 4))
    with pytest.raises(ValueError, match="one word at a time"):
        model.decoder(prev[:, :2], encoder_out, {})
    state = {}
    model.decoder(prev[:, :1], encoder_out, state)
    with pytest.raises(ValueError, match="holds 1 words, .* has 2 before the newest"):
        model.decoder(prev[:, :3], encoder_out, state)
