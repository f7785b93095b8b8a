"""token_mixing_reach: A past the positions that training reached."""

import pytest
import torch
from helpers import build_model, gap, pad_batch, random_sentences, shift
from omegaconf import OmegaConf

from resmlp_mt.decoding.long_sentences import extend_
from resmlp_mt.errors import UserError
from resmlp_mt.model.mixing_kinds import CONVOLUTIONS, OF_POSITIONS
from resmlp_mt.model.token_mixing import MATRICES

POSITIONS, REACH = 9, 5
GENERATION = OmegaConf.create({"generation": {"beam": 4}})
kinds = pytest.mark.parametrize("kind", MATRICES)
causal_ = pytest.mark.parametrize("causal", [False, True])


def build(kind, causal, heads=2):
    mixing = MATRICES[kind](4, POSITIONS, causal, heads=heads)
    for parameter in mixing.parameters():
        torch.nn.init.normal_(parameter)
    return mixing


@kinds
@causal_
@pytest.mark.parametrize("reach", [1, REACH, POSITIONS, POSITIONS + 3])
def test_entry_by_entry(kind, causal, reach):
    mixing = build(kind, causal)
    before, bias = mixing.matrix(POSITIONS).detach().clone(), mixing.bias.detach().clone()
    extend_(mixing, reach)
    after = mixing.matrix(POSITIONS)
    for t in range(POSITIONS):
        assert torch.equal(mixing.bias[:, t], bias[:, min(t, reach - 1)])
        for s in range(POSITIONS):
            moved = max(0, max(t, s) - (reach - 1))
            inside = min(t, s) >= moved
            expected = before[:, t - moved, s - moved] if inside else torch.zeros(2)
            assert torch.equal(after[:, t, s], expected), (t, s)


def features(model, dictionary, lengths):
    sentences = random_sentences(dictionary, lengths)
    source = pad_batch(sentences, dictionary, left=True)
    return model(source, None, pad_batch([shift(s) for s in sentences], dictionary))[0]


@kinds
def test_short_sentences_stay(kind):
    options = dict(token_mixing=kind, token_mixing_heads=4)
    plain, dictionary = build_model(**options)
    extended, _ = build_model(token_mixing_reach=10, **options)
    for model in (plain, extended):
        model.prepare_for_inference_(GENERATION)
    for lengths, same in (((10, 4, 7), True), ((20, 4, 7), False)):
        difference = gap(*(features(model, dictionary, lengths) for model in (extended, plain)))
        assert (difference < 1e-5) == same


@pytest.mark.parametrize("kind", OF_POSITIONS)
def test_more_positions_than_the_checkpoint(kind):
    """As if the checkpoint had had the positions all along; short sentences as before."""
    options = dict(token_mixing=kind, token_mixing_heads=4)
    small, dictionary = build_model(**options)
    longer = dict(max_source_positions=40, max_target_positions=36)
    large, _ = build_model(seed=1, token_mixing_reach=20, **longer, **options)
    large.load_state_dict(small.state_dict(), strict=True)
    for model in (small, large):
        model.prepare_for_inference_(GENERATION)
    lengths = (20, 3, 11)
    assert gap(features(large, dictionary, lengths), features(small, dictionary, lengths)) < 1e-4
    assert torch.isfinite(features(large, dictionary, (36, 5))).all()


def test_more_positions_without_reach_is_refused_by_the_loader():
    small, _ = build_model()
    large, _ = build_model(max_source_positions=40)
    with pytest.raises(RuntimeError, match="size mismatch"):
        large.load_state_dict(small.state_dict(), strict=True)


@pytest.mark.parametrize("kind", ["none", *CONVOLUTIONS])
def test_weights_that_know_no_positions_take_more(kind):
    options = dict(token_mixing=kind, token_positional_embeddings=True)
    small, dictionary = build_model(**options)
    large, _ = build_model(seed=1, max_source_positions=40, max_target_positions=36, **options)
    large.load_state_dict(small.state_dict(), strict=True)
    lengths = (20, 3, 11)
    assert gap(features(large, dictionary, lengths), features(small, dictionary, lengths)) < 1e-4
    assert torch.isfinite(features(large, dictionary, (36, 5))).all()


def test_refusals():
    small, _ = build_model()
    large, _ = build_model(max_source_positions=40, token_mixing_reach=30)
    with pytest.raises(UserError, match="the checkpoint has 24 positions"):
        large.load_state_dict(small.state_dict(), strict=True)
