"""``--torch-compile``: the same translations and gradients, by a few graphs."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from helpers import build_model, gap, pad_batch, random_sentences
from test_generator import assert_same, batch_of
from test_precision import GENERATION
from torch._dynamo.utils import counters

from resmlp_mt.decoding.generator import ResMLPGenerator

SIZES = dict(encoder_layers=1, decoder_layers=1, seed=1, std=0.1)


@pytest.fixture(autouse=True)
def no_graphs_yet():
    torch._dynamo.reset()
    counters.clear()


@pytest.fixture
def without_kernels(monkeypatch):
    """Graphs are captured, and run operation by operation."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))


def translated(words, batches, **options):
    model, dictionary = build_model(**SIZES, max_target_positions=256, **options)
    model.prepare_for_inference_(GENERATION)
    with torch.no_grad():
        model.decoder.output_projection.bias[dictionary.eos()] = -50  # no sentence ends early
    generator = ResMLPGenerator([model], dictionary, beam_size=4, max_len_b=words)
    return [generator.generate([model], batch_of(dictionary, some)) for some in batches]


def check_translations(words, batches):
    """Returns the number of graphs."""
    expected = translated(words, batches)
    assert counters["stats"]["unique_graphs"] == 0
    found = translated(words, batches, torch_compile="generation")
    for theirs, ours in zip(expected, found, strict=True):
        assert_same(theirs, ours)
    return counters["stats"]["unique_graphs"]


def test_graphs_of_200_words(without_kernels):
    """One for the first word, one for all others."""
    assert check_translations(200, [(3, 5)]) == 2


def test_graphs_of_other_batches(without_kernels):
    assert check_translations(4, [(3, 5, 4), (7, 2, 2, 6), (9, 9, 9, 9, 9)]) <= 4


def test_a_copy_has_weights_of_its_own(without_kernels):
    """Of a model that is prepared for generation."""
    model, dictionary = build_model(**SIZES, torch_compile="generation")
    model.prepare_for_inference_(GENERATION)
    copied = deepcopy(model)
    with torch.no_grad():
        for parameter in copied.decoder.layers.parameters():
            parameter.zero_()
    scores = []
    for one in (model, copied):
        generator = ResMLPGenerator([one], dictionary, beam_size=4, max_len_b=4)
        (best, *_), *_ = generator.generate([one], batch_of(dictionary, (5,)))
        scores.append(best["score"].item())
    assert scores[0] != scores[1]


def test_training(without_kernels):
    gradients = []
    for purpose in ("none", "training"):
        model, dictionary = build_model(**SIZES, torch_compile=purpose)
        source = pad_batch(random_sentences(dictionary, (3, 7, 5)), dictionary, left=True)
        prev = pad_batch(random_sentences(dictionary, (4, 2, 6), 1), dictionary)
        model.train()(source, None, prev)[0].log_softmax(-1)[..., 5].sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
        assert (counters["stats"]["unique_graphs"] > 0) == (purpose == "training")
    for name, gradient in gradients[0].items():
        assert gap(gradients[1][name], gradient) < 1e-4, name
