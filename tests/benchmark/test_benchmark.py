"""The benchmark: what it runs in which order, what it counts, and that each mode gives its numbers.

No test looks at a measured time.
"""

import json
from argparse import ArgumentParser, Namespace
from types import SimpleNamespace

import pytest
import torch
from command import refused, resmlp
from helpers import randomize_

from resmlp_mt.benchmark import gpu
from resmlp_mt.benchmark.converted import as_words, load_translator
from resmlp_mt.benchmark.half_products import HalfProducts
from resmlp_mt.benchmark.memory import held_bytes, saved_bytes
from resmlp_mt.benchmark.models import Pair, make_ready
from resmlp_mt.benchmark.sentences import Sentences
from resmlp_mt.benchmark.timing import Spread, alternate, ratio, spread
from resmlp_mt.benchmark.work import multiply_adds
from resmlp_mt.cli import benchmark
from resmlp_mt.decoding.packing import PackedLinear
from resmlp_mt.model.mixing_kinds import TOKEN_MIXING

SMALL = (
    "--arch-options=--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16 "
    "--encoder-ffn-embed-dim 24 --decoder-embed-dim 16",
    *("--sentences", "2", "--beam", "2", "--vocabulary", "30", "--repeats", "2", "--quick"),
)


def parse(*words):
    parser = ArgumentParser()
    benchmark.add_arguments(parser)
    return benchmark.complete(parser.parse_args(list(map(str, words))))


def test_alternate():
    done, waited, moved = [], [], []
    runs = {name: lambda name=name: done.append(name) for name in "AB"}
    seconds = alternate(runs, 1, 3, lambda: waited.append(len(done)), lambda: moved.append(1))
    assert done == list("AB") * 4
    assert waited == [n for i in range(8) for n in (i, i + 1)]
    assert {name: len(some) for name, some in seconds.items()} == {"A": 3, "B": 3}
    assert len(moved) == 8


def test_ratio_is_taken_repeat_by_repeat():
    ours, theirs = [1.0, 2.0, 4.0], [3.0, 2.0, 16.0]
    assert spread(ours) == Spread(2.0, 1.0, 4.0)
    assert ratio(theirs, ours) == Spread(3.0, 1.0, 4.0)
    assert spread(ours).scaled(2) == Spread(4.0, 2.0, 8.0)
    with pytest.raises(ValueError):
        ratio(theirs, ours[:2])


def test_multiply_adds_by_hand():
    linear, x = torch.nn.Linear(3, 5), torch.zeros(2, 3, requires_grad=True)
    assert multiply_adds(lambda: linear(x)) == 2 * 3 * 5
    # each product has two in the backward pass
    assert multiply_adds(lambda: linear(x).sum().backward()) == 3 * 2 * 3 * 5
    heads = torch.zeros(1, 2, 7, 4)
    attention = torch.nn.functional.scaled_dot_product_attention
    assert multiply_adds(lambda: attention(heads, heads, heads)) == 2 * 2 * 7 * 7 * 4
    with torch.no_grad():
        packed = PackedLinear(linear)
        # one row more than a packed product takes without filling
        assert multiply_adds(lambda: packed(torch.zeros(5, 3))) == 5 * 3 * 5


def test_held_bytes():
    class Slotted:
        __slots__ = ("tensor",)

    base = torch.zeros(10)
    slotted, plain = Slotted(), SimpleNamespace(part=base[2:4], other=torch.zeros(3))
    slotted.tensor = torch.zeros(5, dtype=torch.long)
    plain.itself = plain
    # a view holds all of what it views, once
    assert held_bytes({"a": {"b": [base, (plain,)]}, "c": slotted, "d": None}) == 40 + 12 + 40
    assert held_bytes({"module": torch.nn.Linear(3, 3)}) == 0


def test_saved_bytes(monkeypatch):
    def loss(model, task, batch):
        h = model(batch)  # keeps batch and the weight, which were there before
        return (h.exp() * h).sum()  # keeps exp(h), for both, and h

    monkeypatch.setattr("resmlp_mt.benchmark.memory.loss_of", loss)
    linear, batch = torch.nn.Linear(4, 3), torch.zeros(2, 4)
    assert saved_bytes(linear, None, batch) == 4 * (6 + 6 + 1)


def test_the_baseline_has_our_sizes():
    args = parse("decode", "--quick", "--arch-options=--decoder-layers 3")
    ours, theirs = Pair(args, 6, 11).options
    for name in ("decoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "dropout"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert theirs.share_all_embeddings and theirs.max_target_positions == 256
    args = parse("decode", "--quick", "--baseline", "transformer_iwslt_de_en")
    assert Pair(args, 6, 11).options[1].encoder_embed_dim == 512
    args = parse("decode", "--quick", "--baseline-options=--decoder-layers 1")
    assert [options.decoder_layers for options in Pair(args, 6, 11).options] == [4, 1]


def test_decode(tmp_path, monkeypatch):
    out, lengths = tmp_path / "deep" / "er", ("--target-length", 5, 10)
    monkeypatch.setattr("sys.argv", ["resmlp-mt", "benchmark", "decode", *SMALL])
    words = ("decode", *SMALL, *lengths, "--precision", "int8", "--out", out)
    status, printed, _ = resmlp("benchmark", *words)
    assert status == 0
    assert "resmlp_mt_tiny" in printed and "10 words and an end of sentence" in printed
    assert [path.name for path in out.iterdir()] == ["decode.json"]
    found = json.loads((out / "decode.json").read_text())
    assert found["command"].startswith("resmlp-mt benchmark decode '--arch-options")
    assert {"machine", "versions", "settings", "models"} <= set(found)
    assert [line["target_words"] for line in found["lines"]] == [5, 10]
    for line in found["lines"]:
        assert list(line["columns"]) == ["resmlp_mt_tiny", "transformer", "resmlp_mt_tiny int8"]
        for column in line["columns"].values():
            assert column["output_tokens"] == 2 * (line["target_words"] + 1)
            assert len(column["seconds"]) == 2
            assert set(column["speed"]) == {"median", "low", "high"}
        ours, theirs, int8 = (column["counted"] for column in line["columns"].values())
        assert ours == int8 and theirs["speed"] == 1 < ours["speed"]
        assert ours["multiply_adds"] > 0


@pytest.mark.parametrize(
    "mode, parts", [("train", ["lines"]), ("memory", ["training", "decoding"])]
)
def test_other_modes(mode, parts, tmp_path):
    assert resmlp("benchmark", mode, *SMALL, "--out", tmp_path).status == 0
    found = json.loads((tmp_path / f"{mode}.json").read_text())
    assert found["models"]["transformer"]["parameters"] > 0
    for part in parts:
        assert all({"resmlp_mt_tiny", "transformer"} == set(x["columns"]) for x in found[part])
    assert [path.name for path in tmp_path.iterdir()] == [f"{mode}.json"]


def test_gpu_on_a_cpu(tmp_path):
    """Every part, and updates in each precision."""
    given = ("--device", "cpu", "--out", tmp_path)
    assert resmlp("benchmark", "gpu", *SMALL, "--tokens", 20, *given).status == 0
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert found["agrees"] and len(found["agreement"]) == len(TOKEN_MIXING) - 1
    for of_precision in found["training"].values():
        assert len(of_precision["losses"]) == 2 and of_precision["skipped"] == 0
        assert min(of_precision["headroom"].values()) > 1
    losses = {name: found["training"][name]["losses"] for name in ("float32", "float16")}
    assert losses["float32"] != losses["float16"]
    assert losses["float32"] == pytest.approx(losses["float16"], abs=0.05)
    assert found["step"]["work"] > 30 and found["step"]["waits"] < 1
    assert {"decode", "train", "memory"} == set(found["speed"]["bfloat16"])
    assert "CUDA" in found["fsdp"]["not_run"]


def test_a_device_that_disagrees_is_refused(monkeypatch):
    """Here the words: the folded model is another one."""

    def changed(model, beam):
        make_ready(model, beam)
        model.decoder.output_projection.bias.data[7] += 3
        return model

    monkeypatch.setattr(gpu, "make_ready", changed)
    result = resmlp("benchmark", "gpu", "--quick", "--parts", "agreement")
    assert result.status == 1
    assert "--device cpu: its results are not those of the CPU" in result.err


def test_products_of_float16_are_those_of_a_gpu():
    """Summed in float32, and too large only where the result is."""
    a, b = torch.full((2, 1000), 60.0).half(), torch.full((1000, 2), 1.0).half()
    b[500:] = -1
    with HalfProducts():
        assert torch.equal(a @ b, torch.zeros(2, 2).half())
        assert (a @ b.abs()).dtype == torch.float16
        assert torch.equal(a @ b.abs(), torch.full((2, 2), 60000.0).half())
        assert torch.isinf(a @ (b.abs() * 2)).all()


def test_sentences_of_real_data(corpus, tmp_path):
    def lines(mode, *words):
        given = ["--quick", "--repeats", 1, "--data", corpus.data, "--out", tmp_path, *words]
        assert resmlp("benchmark", mode, *given).status == 0
        return json.loads((tmp_path / f"{mode}.json").read_text())["lines"]

    text = (corpus.text / "test.xx").read_text().splitlines()
    (own,) = lines("decode", "--sentences", 11, "--target-length", 3)
    assert own["source_tokens"] == max(len(line.split()) for line in text) + 1
    (batch,) = lines("train", "--tokens", 50)
    assert batch["sentences"] > 1 and batch["tokens"] < batch["sentences"] * batch["target_tokens"]
    words = ("decode", "--quick", "--data", corpus.data, "--sentences", 12)
    refused("has 11 in test that fit", "benchmark", *words)


def test_refusals(tmp_path):
    (tmp_path / "file").write_text("")
    cases = [
        (["--arch", "nope"], "--arch nope: choose transformer or one of resmlp_mt_12"),
        (["--arch-options=--nope 1"], "--arch-options for resmlp_mt_tiny: unrecognized arguments"),
        (["--arch-options='"], "--arch-options ': No closing quotation"),
        (["--arch-options=--dropout much"], "argument --dropout: invalid float value"),
        (["--baseline-options=--encoder-attention-heads 3"], "transformer: "),
        (
            ["--arch-options=--max-target-positions 10"],
            "--target-length 10: with its end of sentence that is 11 tokens",
        ),
        (["--warmup", -1], "--warmup -1: must be at least 0"),
        (["--threads", 0], "--threads: must be at least 1"),
        (["--target-length", 5, 0], "--target-length: must be at least 1"),
        (["--beam", 500], "--vocabulary 1000: must be at least 1004"),
        (["--data", tmp_path / "none"], "none: No such file"),
        (["--data", tmp_path], "no binary data in it"),
        (["--data", tmp_path, "--source-length", 3], "leave out --data or --source-length"),
        (["--baseline", "lstm", "--ctranslate2", "int8"], "lstm is no Transformer"),
        (["--out", tmp_path / "file"], "file"),
        (["--device", "cuda", "--exported", "int8"], "cuda: leave out --exported and --precision"),
        (["--device", "cuda", "--precision", "int8"], "cuda: leave out --exported and --precision"),
    ]
    for words, said in cases:
        refused(said, "benchmark", "decode", "--quick", *words)
    refused("train: --precision", "benchmark", "train", "--quick", "--precision", "int8")
    own = ("--quick", "--data", tmp_path)
    refused("leave out --data or memory", "benchmark", "memory", *own)
    refused("leave out --data or --target-length", "benchmark", "train", *own, "--target-length", 9)
    refused("leave out --data or the part speed", "benchmark", "gpu", *own)


def test_ctranslate2_runs_the_same_model():
    """Beam search of the converted Transformer finds fairseq's translations and their scores."""
    pytest.importorskip("ctranslate2")
    words = ["--beam", "3", "--seed", "3"]
    args = parse("decode", *SMALL, *words)
    pair = Pair(args, 8, 21)
    model, task = pair.build(1, share_all_embeddings=False), pair.task
    pair.options[1].share_all_embeddings = False
    dictionary = task.target_dictionary
    randomize_(model)
    with torch.no_grad():
        # along the bias of all states: sentences end of themselves, and never in padding, which
        # CTranslate2 does not rule out
        output, bias = (
            model.decoder.output_projection,
            model.decoder.layers[-1].final_layer_norm.bias,
        )
        output.weight[dictionary.eos()] += 2 * bias / bias.square().sum()
        output.weight[dictionary.pad()] = -10 * bias / bias.square().sum()
    make_ready(model, 3)
    batch = Sentences(task, args).source_batch(6, 7)
    # without a forced length, since CTranslate2 normalizes over those words that it may take
    generator = task.build_generator([model], Namespace(beam=3, max_len_b=20, min_len=0))
    ours = [found[0] for found in task.inference_step(generator, [model], batch)]
    translator = load_translator(model, pair.options[1], task, "float32", "cpu", 1)
    sources = as_words(batch, task.source_dictionary)
    search = {"beam_size": 3, "min_decoding_length": 0, "max_decoding_length": 20}
    theirs = translator.translate_batch(sources, return_scores=True, **search)
    translations = [[dictionary[word] for word in found["tokens"][:-1]] for found in ours]
    assert [result.hypotheses[0] for result in theirs] == translations
    for found, result in zip(ours, theirs):
        assert result.scores[0] == pytest.approx(found["score"].item(), abs=1e-4)
    assert len(set(map(len, translations))) > 3 and max(map(len, translations)) < 20


def test_other_engines_make_as_many_tokens():
    pytest.importorskip("ctranslate2")
    columns = ["--ctranslate2", "float32", "int8", "--exported", "int8"]
    status, out, _ = resmlp("benchmark", "decode", *SMALL, *columns, "--target-length", 6)
    assert status == 0 and "CTranslate2 int8" in out and "exported int8" in out
