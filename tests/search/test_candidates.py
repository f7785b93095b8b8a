"""The best next tokens by block, and the normalizer by chunk, equal PyTorch's."""

from unittest import mock

import torch
from hypothesis import example, given
from hypothesis import strategies as st

from resmlp_mt.search import candidates
from resmlp_mt.search.candidates import BLOCK, best_continuations, log_normalizer

SIZES = (7, 64, 1000, 1024, 4097)
ROWS = 3


@st.composite
def logits_of(draw, vocabulary):
    """ROWS x V scores: distinct or with ties, the best side by side, tokens ruled out."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    logits = torch.stack(
        [torch.randperm(vocabulary, generator=generator) for _ in range(ROWS)]
    ).float()
    if draw(st.booleans()):
        logits = logits.remainder(20)
    first = draw(st.integers(0, vocabulary - 1))
    start = draw(st.sampled_from([first, first // BLOCK * BLOCK, max(0, vocabulary - 6)]))
    logits[:, start : start + 6] += vocabulary
    out = draw(
        st.sampled_from([slice(0, 0), slice(0, vocabulary // 2), slice(0, None, 2), slice(1, None)])
    )
    logits[0, out] = -torch.inf
    return logits


@given(st.data(), st.sampled_from(SIZES), st.sampled_from([1, 3]), st.booleans())
def test_best_continuations(data, vocabulary, sentences, in_chunks):
    """Of all rows of a sentence, with the rows' scores added; of equal ones any, each once."""
    logits, count = data.draw(logits_of(vocabulary)), data.draw(st.integers(1, min(vocabulary, 10)))
    scores = torch.tensor([[0.0], [-3.0], [-torch.inf]])
    first = torch.arange(sentences).unsqueeze(1) * (ROWS // sentences * vocabulary)
    totals = (logits + scores).flatten()
    with mock.patch.object(candidates, "in_chunks", lambda x: in_chunks):
        best, found = best_continuations(logits.clone(), scores, first, count)
    assert torch.equal(best, totals.view(sentences, -1).topk(count, dim=1).values)
    assert torch.equal(totals[found], best)
    assert all(len(set(row)) == count for row in found.tolist())
    assert (found // (ROWS // sentences * vocabulary) == torch.arange(sentences).unsqueeze(1)).all()


@given(st.integers(1, 33), st.sampled_from([1, 1024, 8192]))
@example(33, 8192)
def test_log_normalizer(rows, chunk):
    logits = torch.randn(rows, 1000, generator=torch.Generator().manual_seed(rows)) * 5
    logits[:, 2] = -torch.inf
    logits[-1] += 500  # above what exp can hold
    before = logits.clone()
    with mock.patch.object(candidates, "CHUNK", chunk):
        found = log_normalizer(logits)
    assert found.shape == (rows, 1)
    assert torch.allclose(found[:, 0], torch.logsumexp(before, dim=1), rtol=1e-6)
    assert torch.equal(logits, before)
