"""What is mended in fairseq when the package is imported."""

import numpy as np
import pytest
import torch
from fairseq.data import data_utils
from fairseq.ngram_repeat_block import NGramRepeatBlock

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes import replace_once
from resmlp_mt.fairseq_fixes import trainings as matmul_precision
from resmlp_mt.fairseq_fixes.wrong_results import batch_by_size


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 63, 100, 1003])
@pytest.mark.parametrize("max_sentences", [None, 5, 16])
def test_every_sentence_is_in_a_batch_once(count, max_sentences):
    lengths = np.random.default_rng(count).integers(1, 60, count)
    order = np.argsort(lengths, kind="stable")
    batches = data_utils.batch_by_size(
        order, None, lengths, 500, max_sentences, required_batch_size_multiple=8
    )
    assert [i for batch in batches for i in batch] == order.tolist()
    assert all(len(batch) * lengths[batch].max() <= 500 for batch in batches)
    assert max_sentences is None or all(len(batch) <= max_sentences for batch in batches)


def test_importing_twice_wraps_once():
    wrapped = data_utils.batch_by_size
    replace_once(data_utils, "batch_by_size")(batch_by_size)
    assert data_utils.batch_by_size is wrapped


def test_matmul_precision(monkeypatch):
    before = torch.get_float32_matmul_precision()
    try:
        monkeypatch.setenv("RESMLP_MT_MATMUL_PRECISION", "medium")
        matmul_precision.set_matmul_precision()
        assert torch.get_float32_matmul_precision() == "medium"
        monkeypatch.delenv("RESMLP_MT_MATMUL_PRECISION")
        matmul_precision.set_matmul_precision()
        assert torch.get_float32_matmul_precision() == "medium"
        monkeypatch.setenv("RESMLP_MT_MATMUL_PRECISION", "half")
        with pytest.raises(UserError, match="RESMLP_MT_MATMUL_PRECISION=half: choose one of"):
            matmul_precision.set_matmul_precision()
    finally:
        torch.set_float32_matmul_precision(before)


def test_repeated_ngrams_are_blocked_on_a_cpu():
    """The hypothesis is 5 6 5 so far, in a buffer of ten words: no 6 may follow."""
    tokens = torch.ones(1, 10, dtype=torch.long)
    tokens[0, :4] = torch.tensor([2, 5, 6, 5])
    blocked = NGramRepeatBlock(2, use_extension=False)(tokens, torch.zeros(1, 9), 1, 1, 3)
    assert (blocked[0] == -torch.inf).nonzero().flatten().tolist() == [6]
