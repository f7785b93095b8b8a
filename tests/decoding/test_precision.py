"""Generation in bfloat16 and int8: close to float32, and only where it was asked for."""

from types import SimpleNamespace

import pytest
import torch
from fairseq_programs import generate, hypotheses
from helpers import build_model, gap, mixings, pad_batch, random_sentences
from torch import nn
from torch.ao.nn.quantized.dynamic import Linear as QuantizedLinear

from resmlp_mt.decoding import generator as generator_module
from resmlp_mt.decoding.candidates import CHUNK
from resmlp_mt.decoding.generator import ResMLPGenerator
from resmlp_mt.decoding.precision import (
    FEW,
    PRECISIONS,
    Int8Linear,
    has_products_of_int8,
    set_precision_,
)
from resmlp_mt.errors import UserError

GENERATION = SimpleNamespace(generation=SimpleNamespace(beam=4))
REDUCED = ("bfloat16", "int8")


def prepared(precision, **options):
    model, dictionary = build_model(std=0.15, inference_precision=precision, **options)
    model.prepare_for_inference_(GENERATION)
    return model, dictionary


def kinds_of(model):
    return [type(module) for module in model.modules()]


@torch.no_grad()
def log_probabilities(model, dictionary):
    """Of the next word, for sentences of different lengths."""
    source = pad_batch(random_sentences(dictionary, (4, 9, 6)), dictionary, left=True)
    prev = torch.randint(4, len(dictionary), (3, 7), generator=torch.Generator().manual_seed(2))
    return model.get_normalized_probs(model(source, None, prev), log_probs=True)


@pytest.mark.parametrize("precision", REDUCED)
@mixings
def test_near_float32(precision, kind, heads):
    options = dict(token_mixing=kind, token_mixing_heads=heads)
    exact, dictionary = prepared("checkpoint", **options)
    model, _ = prepared(precision, **options)
    expected, found = (log_probabilities(m, dictionary) for m in (exact, model))
    assert 1e-5 < gap(found, expected) < 0.05


@pytest.mark.parametrize("precision", REDUCED)
@pytest.mark.parametrize("chunk", [CHUNK, 60], ids=["at_once", "in_chunks"])
def test_translates(precision, chunk, monkeypatch):
    """Each hypothesis has the score that one whole pass gives its words, to the precision."""
    monkeypatch.setattr(generator_module, "CHUNK", chunk)
    model, dictionary = prepared(precision)
    lengths = (4, 9, 6)
    source = pad_batch(random_sentences(dictionary, lengths), dictionary, left=True)
    batch = {"net_input": {"src_tokens": source, "src_lengths": torch.tensor(lengths)}}
    generator = ResMLPGenerator([model], dictionary, beam_size=3, max_len_b=8)
    for number, some in enumerate(generator.generate([model], batch)):
        assert len(some) == 3
        for hypothesis in some:
            words = hypothesis["tokens"].unsqueeze(0)
            with torch.no_grad():
                out = model(source[number : number + 1], None, words.roll(1))
            scores = model.get_normalized_probs(out, log_probs=True)[0]
            scores = scores.gather(1, words.t()).squeeze(1).float()
            assert gap(hypothesis["positional_scores"], scores) < 0.1


def test_every_linear_layer_is_quantized():
    model, _ = prepared("int8", share_all_embeddings=True)
    kinds = kinds_of(model)
    assert not any(issubclass(kind, nn.Linear) for kind in kinds)
    layouts = 1 + has_products_of_int8()
    assert kinds.count(QuantizedLinear) == layouts * (2 * 2 + 2 * (2 + 4) + 1)
    layer = model.decoder.output_projection
    weight = getattr(layer, "many", layer).weight()
    # a scale for each output channel
    scales = weight.q_per_channel_scales()
    assert weight.dtype == torch.qint8 and len(scales) == 50 and len(scales.unique()) > 10


@pytest.mark.skipif(not has_products_of_int8(), reason="PyTorch's own layers, of one layout")
@torch.no_grad()
def test_few_rows_and_many_give_the_same():
    """Sums of 8-bit products are exact in both layouts. The results are rounded apart at most."""
    linear = nn.Linear(64, 48)
    layer, x = Int8Linear(linear), torch.randn(4, 64)
    few, many = layer(x), layer(x.repeat(FEW, 1))
    assert gap(few, many[:4]) < 1e-5 and 1e-5 < gap(few, linear(x)) < 0.05
    assert torch.equal(layer(x.view(2, 2, 64)).view(4, 48), few)
    layer.many = None  # few rows do not use it
    assert torch.equal(layer(x), few)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_types_of_the_parameters(precision):
    """And asking twice is harmless."""
    model, dictionary = prepared(precision)
    expected = torch.bfloat16 if precision == "bfloat16" else torch.float32
    assert {p.dtype for p in model.parameters()} == {expected}
    assert (QuantizedLinear in kinds_of(model)) == (precision == "int8")
    once = log_probabilities(model, dictionary)
    model.prepare_for_inference_(GENERATION)
    assert torch.equal(log_probabilities(model, dictionary), once)


def test_int8_of_a_half_precision_model():
    """fairseq-generate --fp16 has halved it before."""
    model, dictionary = build_model(std=0.15, inference_precision="int8")
    model.half().prepare_for_inference_(GENERATION)
    expected = log_probabilities(prepared("int8")[0], dictionary)
    assert gap(log_probabilities(model, dictionary), expected) < 0.05


def test_the_quantized_engine_is_put_back(monkeypatch):
    backend = torch.backends.quantized
    before = backend.engine
    others = [e for e in backend.supported_engines if e not in ("none", before)]
    try:
        for engine in (before, *others):
            backend.engine = engine
            model, _ = prepared("int8")
            assert backend.engine == engine

            def fail(*_, **__):
                raise RuntimeError("no room")

            with monkeypatch.context() as patch:
                patch.setattr(QuantizedLinear, "from_float", fail)
                with pytest.raises(RuntimeError, match="no room"):
                    prepared("int8")
            assert backend.engine == engine
    finally:
        backend.engine = before


def test_int8_elsewhere_than_on_a_cpu():
    model, _ = build_model(inference_precision="int8")
    with pytest.raises(UserError) as caught:
        set_precision_(model.to("meta"), "int8")
    message = str(caught.value)
    assert "int8" in message and "not for meta" in message and "--cpu" in message
    assert "\n" not in message and nn.Linear in kinds_of(model)


@pytest.mark.parametrize("precision", REDUCED)
def test_by_command_line(trained, corpus, precision):
    """Every sentence, near the checkpoint's own scores."""
    plain = hypotheses(generate(trained.data, trained.path))
    overrides = str({"inference_precision": precision})
    found = hypotheses(generate(trained.data, trained.path, "--model-overrides", overrides))
    assert sorted(found) == list(range(corpus.sizes["test"]))
    scores, plain_scores = ([h[n][0][0] for n in sorted(h)] for h in (found, plain))
    assert scores != plain_scores
    assert scores == pytest.approx(plain_scores, abs=0.2)
