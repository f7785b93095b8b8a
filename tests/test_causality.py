"""No word sees the future: a later word moves no earlier logit by a single bit."""

import pytest
import torch
from helpers import KINDS, POSITIONS, build_model, pad_batch, random_sentences

from resmlp_mt.folding import fold_

variants = pytest.mark.parametrize("kind", KINDS)
heads_ = pytest.mark.parametrize("heads", [1, 4])


@torch.no_grad()
def assert_causal(model, dictionary):
    source = pad_batch(random_sentences(dictionary, (6, 9)), dictionary, left=True)
    prev = torch.randint(4, len(dictionary), (2, POSITIONS))
    logits, _ = model(source, None, prev)
    for position in range(POSITIONS):
        changed = prev.clone()
        changed[:, position] = 4 + (changed[:, position] - 3) % (len(dictionary) - 4)
        moved, _ = model(source, None, changed)
        assert torch.equal(moved[:, :position], logits[:, :position])
        assert not torch.equal(moved[:, position], logits[:, position])


@variants
@heads_
@pytest.mark.parametrize("normalization", ["affine", "layernorm"])
@pytest.mark.parametrize("folded", [False, True])
def test_random_parameters(kind, heads, normalization, folded):
    """Every weight is drawn, the unused ones above the diagonal too."""
    model, dictionary = build_model(
        token_mixing=kind, token_mixing_heads=heads, normalization=normalization
    )
    if folded:
        fold_(model)
    assert_causal(model, dictionary)


@variants
@heads_
def test_after_training(kind, heads):
    model, dictionary = build_model(
        randomize=False, token_mixing=kind, token_mixing_heads=heads, token_mixing_init_std=0.3
    )
    source = pad_batch(random_sentences(dictionary, (5, 8)), dictionary)
    target = torch.randint(4, len(dictionary), (2, POSITIONS))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, weight_decay=0.01)
    before = model.decoder.layers[0].token_mixing.mixing.matrix(POSITIONS).clone()
    model.train()
    for _ in range(4):
        logits, _ = model(source, None, target.roll(1, dims=1))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()
        optimizer.step()
    for layer in model.decoder.layers:
        assert layer.token_mixing.mixing.matrix(POSITIONS).triu(1).count_nonzero() == 0
        if kind == "linear":
            assert layer.token_mixing.mixing.weight.triu(1).count_nonzero() == 0
    assert not torch.equal(before, model.decoder.layers[0].token_mixing.mixing.matrix(POSITIONS))
    assert_causal(model.eval(), dictionary)


@variants
def test_every_earlier_word_is_seen(kind):
    """The mixing alone reaches back to the first word: triangular, not merely diagonal."""
    model, dictionary = build_model(token_mixing=kind, no_cross_attention=True, decoder_layers=1)
    prev = torch.randint(4, len(dictionary), (1, POSITIONS))
    for position in range(POSITIONS):
        changed = prev.clone()
        changed[0, position] = 4 + (changed[0, position] - 3) % (len(dictionary) - 4)
        moved = model.decoder(changed)[0] != model.decoder(prev)[0]
        assert moved[0, position:].any(dim=1).all()
