"""Decoding holds on to nothing."""

import gc

import torch
from fairseq.data import LanguagePairDataset
from fairseq_cli import interactive
from fairseq_programs import call
from helpers import build_model, pad_batch, random_sentences

from resmlp_mt.decoding.search import ResMLPGenerator


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


def test_interactive_lets_go_of_its_lines(trained, monkeypatch):
    """A data set is made of each buffer of lines; fairseq kept them for a next epoch."""
    held, read = [], interactive.buffered_read

    def counted(*arguments):
        for lines in read(*arguments):
            gc.collect()
            held.append(sum(type(thing) is LanguagePairDataset for thing in gc.get_objects()))
            yield lines

    monkeypatch.setattr(interactive, "buffered_read", counted)
    options = ("--path", trained.path, "--beam", 2, "--cpu", "--buffer-size", 2)
    call("interactive", trained.data, *options, stdin="w01 w02\nw03\n" * 4)
    assert len(held) == 4 and held[-1] <= held[1] <= held[0] + 2
