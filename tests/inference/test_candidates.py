"""The best next words by block, and the normalizer by chunk: what PyTorch gives in one go."""

import pytest
import torch

from resmlp_mt.inference import candidates
from resmlp_mt.inference.candidates import BLOCK, log_normalizer, top_words

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


@pytest.mark.parametrize("words", SIZES)
@pytest.mark.parametrize("k", range(1, 11))
def test_top_words(words, k):
    if k <= words:
        assert_same_words(distinct(5, words, k), k)
        assert_same_words(-distinct(3, words, k), k)


@pytest.mark.parametrize("words", SIZES)
def test_random_scores(words):
    """Where scores are equal any of their words will do, each once."""
    logits = torch.randint(20, (4, words)).float()
    k = min(words, 6)
    scores, found = top_words(logits, k)
    assert torch.equal(scores, logits.topk(k, dim=1).values)
    assert torch.equal(logits.gather(1, found), scores)
    assert all(len(set(row)) == k for row in found.tolist())


@pytest.mark.parametrize("words", SIZES[2:])
@pytest.mark.parametrize("place", ["first_block", "middle_block", "last_block", "end"])
@pytest.mark.parametrize("k", [1, 4, 7])
def test_best_words_side_by_side(words, place, k):
    """All in one block, or behind the last whole block as far as there is room."""
    last = words // BLOCK
    first = {
        "first_block": 3,
        "middle_block": (last // 2) * BLOCK + 50,
        "last_block": (last - 1) * BLOCK,
        "end": words - k,
    }[place]
    logits = distinct(3, words)
    logits[:, first : first + k] += words
    assert_same_words(logits, k)


@pytest.mark.parametrize("words", SIZES[1:])
@pytest.mark.parametrize("k", [2, 5])
def test_words_that_are_ruled_out(words, k):
    """Minus infinity: whole blocks, single words, and all but fewer than k."""
    logits = distinct(4, words)
    logits[0, : words // 2] = -torch.inf
    logits[1, ::2] = -torch.inf
    assert_same_words(logits[:2], k)
    logits[2] = -torch.inf
    logits[2, words - 1] = 1.0
    logits[3] = -torch.inf
    scores, found = top_words(logits, k)
    assert torch.equal(scores, logits.topk(k, dim=1).values)
    assert found[2, 0] == words - 1
    assert torch.equal(logits.gather(1, found), scores)


def test_no_sorting_of_the_whole_vocabulary(monkeypatch):
    """Of 32768 words only block maxima and the chosen blocks are sorted."""
    sizes, topk = [], torch.Tensor.topk
    monkeypatch.setattr(
        torch.Tensor, "topk", lambda x, *a, **o: sizes.append(x.size(1)) or topk(x, *a, **o)
    )
    top_words(distinct(2, 32768 + 5), 8)
    assert sizes == [32768 // BLOCK, 8 * BLOCK + 5]


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 33])
@pytest.mark.parametrize("words", SIZES[:4])
@pytest.mark.parametrize("chunk", [1, 1024, 8192])
def test_log_normalizer(rows, words, chunk, monkeypatch):
    monkeypatch.setattr(candidates, "CHUNK", chunk)
    logits = torch.randn(rows, words) * 5
    logits[:, 2] = -torch.inf
    logits[-1] += 500  # above what exp can hold
    before = logits.clone()
    found = log_normalizer(logits)
    assert found.shape == (rows,)
    assert torch.allclose(found, torch.logsumexp(before, dim=1), rtol=1e-6)
    assert torch.equal(logits, before)
