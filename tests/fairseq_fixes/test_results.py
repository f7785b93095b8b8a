"""Results that fairseq gets wrong without our repairs."""

import gc

import numpy as np
import pytest
import torch
from fairseq.data import data_utils
from fairseq.ngram_repeat_block import NGramRepeatBlock
from helpers import build_model, pad_batch, random_sentences

from resmlp_mt.search.beam_search import ResMLPGenerator


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


@pytest.mark.parametrize("size, banned", [(2, [6]), (3, [])])
def test_repeated_ngrams_are_blocked_on_a_cpu(size, banned):
    """The hypothesis is 5 6 5 so far, in a buffer of ten tokens; 2 begins it and may end it."""
    tokens = torch.ones(1, 10, dtype=torch.long)
    tokens[0, :4] = torch.tensor([2, 5, 6, 5])
    blocked = NGramRepeatBlock(size, use_extension=False)(tokens, torch.zeros(1, 9), 1, 1, 3)
    assert (blocked[0] == -torch.inf).nonzero().flatten().tolist() == banned


def test_no_tensor_outlives_its_batch():
    model, dictionary = build_model(token_mixing="gated")
    generator = ResMLPGenerator([model], dictionary, beam_size=4, max_len_b=8)
    held = []
    gc.collect()
    gc.freeze()  # what was there before is not looked at, which would take seconds
    for seed, lengths in enumerate([(9, 4, 7), (3, 5), (9, 9, 2, 1), (1,), (6, 8)]):
        tokens = pad_batch(random_sentences(dictionary, lengths, seed), dictionary)
        net_input = {"src_tokens": tokens, "src_lengths": torch.tensor(lengths)}
        generator.generate([model], {"net_input": net_input})
        gc.collect()
        held.append(sum(torch.is_tensor(thing) for thing in gc.get_objects()))
    gc.unfreeze()
    assert max(held) <= held[0]
