"""The best next words by block, and the normalizer by chunk: what PyTorch gives in one go."""

import pytest
import torch

from resmlp_mt.decoding import candidates
from resmlp_mt.decoding.candidates import BLOCK, log_normalizer, top_words

SIZES = (7, 64, 1000, 1024, 4097, 32768)


def distinct(rows, words, seed=0):
    """Scores of which no two in a row are the same."""
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randperm(words, generator=generator) for _ in range(rows)]).float()


def assert_same_words(logits, k):
    scores, words = top_words(logits.clone(), k)
    expected, places = logits.topk(k, dim=1)
    assert torch.equal(scores, expected)
    assert torch.equal(words, places)


@pytest.mark.parametrize(
    "words, k", [(words, k) for words in SIZES for k in (1, 4, 7, 10) if k <= words]
)
def test_top_words(words, k):
    assert_same_words(distinct(5, words, k), k)
    assert_same_words(-distinct(3, words, k), k)


@pytest.mark.parametrize("words", SIZES)
def test_equal_scores(words):
    """Any words of the same score will do, each once."""
    logits = torch.randint(20, (4, words)).float()
    k = min(words, 6)
    scores, found = top_words(logits, k)
    assert torch.equal(scores, logits.topk(k, dim=1).values)
    assert torch.equal(logits.gather(1, found), scores)
    assert all(len(set(row)) == k for row in found.tolist())


@pytest.mark.parametrize("words", [1000, 4097])
@pytest.mark.parametrize("k", [1, 7])
def test_best_words_side_by_side(words, k):
    """All in one block, or behind the last whole block as far as there is room."""
    last = words // BLOCK
    for first in (3, last // 2 * BLOCK + 50, (last - 1) * BLOCK, words - k):
        logits = distinct(3, words)
        logits[:, first : first + k] += words
        assert_same_words(logits, k)


@pytest.mark.parametrize("words", SIZES[1:])
def test_words_that_are_ruled_out(words):
    """Minus infinity: whole blocks, single words, and all but one word."""
    logits = distinct(3, words)
    logits[0, : words // 2] = -torch.inf
    logits[1, ::2] = -torch.inf
    assert_same_words(logits[:2], 5)
    logits[2, : words - 1] = -torch.inf
    scores, found = top_words(logits, 5)
    assert torch.equal(scores, logits.topk(5, dim=1).values)
    assert found[2, 0] == words - 1
    assert torch.equal(logits.gather(1, found), scores)


@pytest.mark.parametrize("rows", [1, 8, 33])
@pytest.mark.parametrize("chunk", [1, 1024, 8192])
def test_log_normalizer(rows, chunk, monkeypatch):
    monkeypatch.setattr(candidates, "CHUNK", chunk)
    logits = torch.randn(rows, 1000) * 5
    logits[:, 2] = -torch.inf
    logits[-1] += 500  # above what exp can hold
    before = logits.clone()
    found = log_normalizer(logits)
    assert found.shape == (rows, 1)
    assert torch.allclose(found[:, 0], torch.logsumexp(before, dim=1), rtol=1e-6)
    assert torch.equal(logits, before)
