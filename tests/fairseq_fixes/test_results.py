"""What is replaced in fairseq is listed, with a reason and a test; results that it gets wrong."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from fairseq.data import data_utils
from fairseq.ngram_repeat_block import NGramRepeatBlock

from resmlp_mt.cli.main import main
from resmlp_mt.patching import REPLACEMENTS, TRIED


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


def test_each_names_a_test_that_exists():
    texts = {path.name: path.read_text("utf-8") for path in Path("tests").rglob("test_*.py")}
    everything = "".join(texts.values())
    assert len(REPLACEMENTS) >= 25 and len({each[:2] for each in REPLACEMENTS}) == len(REPLACEMENTS)
    for each in REPLACEMENTS:
        named = re.findall(r"\btest_\w+(?:\.py)?", each.reason)
        assert named and str(each).endswith("."), each
        for name in named:
            assert name in texts or f"def {name}(" in everything, (each, name)


def test_each_is_printed_with_the_version(capsys):
    assert main(["--version", "-v"]) == 0
    version, heading, *lines = capsys.readouterr().out.splitlines()
    assert TRIED in heading and lines == list(map(str, REPLACEMENTS))
    name = "fairseq.data.data_utils.batch_by_size"
    assert f"{name}: The last batch stays, also if its size is no multiple of 8." in lines
    assert data_utils.batch_by_size.__wrapped__.__module__ == "fairseq.data.data_utils"
