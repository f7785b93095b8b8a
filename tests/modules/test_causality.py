"""No word sees the future: a later word moves no earlier logit by a single bit."""

import pytest
import torch
from helpers import POSITIONS, build_model, mixings, pad_batch, random_sentences
from model_checks import assert_causal, random_words

from resmlp_mt.inference.folding import fold_
from resmlp_mt.modules.mixing_kinds import CONVOLUTIONS, TOKEN_MIXING
from resmlp_mt.modules.token_mixing import MATRICES


def check(model, dictionary):
    source = pad_batch(random_sentences(dictionary, (6, 9)), dictionary, left=True)
    assert_causal(model, dictionary, source, random_words(dictionary, 2, POSITIONS))


@mixings
@pytest.mark.parametrize("normalization", ["affine", "layernorm"])
@pytest.mark.parametrize("folded", [False, True])
def test_random_parameters(kind, heads, normalization, folded):
    """Every weight is drawn, the unused ones above the diagonal too."""
    model, dictionary = build_model(
        token_mixing=kind, token_mixing_heads=heads, normalization=normalization
    )
    if folded:
        fold_(model)
    check(model, dictionary)


@mixings
def test_after_training(kind, heads):
    model, dictionary = build_model(
        randomize=False, token_mixing=kind, token_mixing_heads=heads, token_mixing_init_std=0.3
    )
    source = pad_batch(random_sentences(dictionary, (5, 8)), dictionary)
    target = torch.randint(4, len(dictionary), (2, POSITIONS))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05, weight_decay=0.01)
    model.train()
    for _ in range(4):
        logits, _ = model(source, None, target.roll(1, dims=1))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()
        optimizer.step()
    check(model.eval(), dictionary)
    for layer in model.decoder.layers if kind in MATRICES else ():
        mixing = layer.token_mixing.mixing
        assert mixing.matrix(POSITIONS).triu(1).count_nonzero() == 0
        if kind == "linear":
            assert mixing.weight.triu(1).count_nonzero() == 0


@pytest.mark.parametrize("kind", TOKEN_MIXING)
def test_how_far_back(kind):
    """The mixing alone: to the first word, K - 1 words for a convolution, none at all."""
    reach = {"none": 0}.get(kind, 2 if kind in CONVOLUTIONS else POSITIONS)
    model, dictionary = build_model(token_mixing=kind, no_cross_attention=True, decoder_layers=1)
    prev = torch.randint(4, len(dictionary), (1, POSITIONS))
    for position in range(POSITIONS):
        changed = prev.clone()
        changed[0, position] = 4 + (changed[0, position] - 3) % (len(dictionary) - 4)
        moved = model.decoder(changed)[0] != model.decoder(prev)[0]
        assert moved[0, position : position + reach + 1].any(dim=1).all()
        assert not moved[0, position + reach + 1 :].any()
