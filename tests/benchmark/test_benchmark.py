"""The benchmark: what it counts, what it runs in which order, and that each mode gives its numbers.

No test looks at a measured time.
"""

import json
from argparse import Namespace
from types import SimpleNamespace

import benchmark
import pytest
import torch
from helpers import randomize_
from test_scripts import call

from resmlp_mt.benchmark import floor
from resmlp_mt.benchmark.columns import Pair
from resmlp_mt.benchmark.ctranslate import as_words, load_translator
from resmlp_mt.benchmark.held import held_bytes, saved_bytes
from resmlp_mt.benchmark.operators import LINEAR, OTHERS, OUTPUT, SOFTMAX, sum_parts
from resmlp_mt.benchmark.options import parse
from resmlp_mt.benchmark.pair import make_ready, parse_options
from resmlp_mt.benchmark.sentences import Sentences
from resmlp_mt.benchmark.timing import Spread, alternate, ratio, spread
from resmlp_mt.modules.mixing_kinds import TOKEN_MIXING

# d = 2, h = 3 in 2 encoder layers and 1 decoder layer, V = 5
SIZES = dict(vocabulary=5, encoder_layers=2, encoder_channels=2, encoder_hidden=3)
SIZES.update(decoder_layers=1, decoder_channels=2, decoder_hidden=3)
OURS, THEIRS = floor.Sizes("linear", **SIZES), floor.Sizes("self-attention", **SIZES)
SMALL = (
    *("--arch-option", "encoder_layers=1", "--arch-option", "decoder_layers=1"),
    *("--arch-option", "encoder_embed_dim=16", "--arch-option", "encoder_ffn_embed_dim=24"),
    *("--sentences", 2, "--beam", 2, "--vocabulary", 30, "--repeats", 2, "--quick"),
)


def test_counts_by_hand():
    # one layer, position 4: 4 d² + 2 t d = 16 + 16, t d = 8
    assert (THEIRS.work.multiply_adds(2, 4), OURS.work.multiply_adds(2, 4)) == (32, 8)
    # 3 source tokens, 2 layers: 3 x 2 x (mixing of 3 + 2 d h)
    assert floor.encoder(THEIRS, 3) == 6 * (16 + 12 + 12) == 240
    assert floor.encoder(OURS, 3) == 6 * (6 + 12) == 108
    assert floor.source_keys(OURS, 3) == floor.source_keys(THEIRS, 3) == 2 * 3 * 4
    # + 2 d² + 2 s d + 2 d h + V d
    assert floor.decoder_step(THEIRS, 4, 3) == 32 + 8 + 12 + 12 + 10 == 74
    assert floor.decoder_step(OURS, 4, 3) == 8 + 8 + 12 + 12 + 10 == 50
    # two steps of two beams
    assert floor.decoding(THEIRS, 3, 2, 2) == 240 + 24 + 2 * (62 + 66)
    assert floor.decoding(OURS, 3, 2, 2) == 108 + 24 + 2 * (44 + 46)
    # every target position mixes all 4
    assert floor.training(THEIRS, 3, 4) == 3 * (240 + 24 + 4 * 74)
    assert floor.training(OURS, 3, 4) == 3 * (108 + 24 + 4 * 50)


def test_bytes_by_hand():
    assert floor.weights_read(THEIRS) == 4 * (4 * 4 + 2 * 4 + 12 + 10)
    assert floor.weights_read(OURS, 1) == 2 * 4 + 12 + 10
    # 3 hypotheses at position 4: 6 t d and t d numbers of 4 bytes
    assert floor.cache_traffic(THEIRS, 4, 3) == 4 * 3 * 48
    assert floor.cache_traffic(OURS, 4, 3, 2) == 2 * 3 * 8
    # 2 sentences of 5 tokens beside them: 2 s d numbers each
    assert floor.cache_held(THEIRS, 4, 3, 5, 2) == 4 * (3 * 16 + 2 * 20)
    assert floor.cache_held(OURS, 4, 3, 5, 2) == 4 * (3 * 8 + 2 * 20)


def test_kinds_of_mixing_by_hand():
    """d = 2 at position 4: multiply-adds, then numbers read of 3 hypotheses' past, and kept."""
    expected = {
        "toeplitz": (8, 24, 24),
        "mlp": (16 * 4, 5 * 24, 5 * 24),  # four rows each way
        "conv": (3 * 4, 3 * 6, 3 * 6),  # three positions are seen
        "depthwise-conv": (6, 3 * 6, 3 * 6),
        "separable-conv": (6 + 4, 3 * 6, 3 * 6),
        "none": (0, 0, 0),
    }
    assert {*expected, "linear"} == set(TOKEN_MIXING)
    for kind, (adds, moved, held) in expected.items():
        sizes = floor.Sizes(kind, **SIZES)
        assert sizes.work.multiply_adds(2, 4) == adds
        assert floor.cache_traffic(sizes, 4, 3, 1) == moved
        assert floor.cache_held(sizes, 4, 3, 0, 0, 1) == held
    # at the second position there are two to see
    assert floor.cache_traffic(floor.Sizes("conv", **SIZES), 2, 3, 1) == 2 * 6


@pytest.mark.parametrize("kind", TOKEN_MIXING)
def test_the_counts_are_of_the_models_that_run(kind):
    """Weights of the decoder's matrices, counted and built; a mixing matrix's row is left out."""
    options = ("--arch-option", f"token_mixing={kind}", "--arch-option", "token_mixing_heads=1")
    args = parse(["decode", *map(str, (*SMALL, *options))])
    pair = Pair(args, 6, 6)
    of_positions = ("mixing.weight", "depthwise.weight")
    for sizes, model in zip(pair.sizes, pair.models()):
        weights = {n: w for n, w in model.decoder.named_parameters() if n.endswith("weight")}
        matrices = [
            w.numel() for n, w in weights.items() if w.dim() == 2 and not n.endswith(of_positions)
        ]
        keys_values = 2 * 16 * 16  # computed once a sentence
        assert sum(matrices) - keys_values == floor.weights_read(sizes, 1)


def test_alternate():
    done, waited, moved = [], [], []
    runs = {name: lambda name=name: done.append(name) for name in "AB"}
    seconds = alternate(runs, 1, 3, lambda: waited.append(len(done)), lambda: moved.append(1))
    assert done == list("AB") * 4
    assert waited == [n for i in range(8) for n in (i, i + 1)]
    assert {name: len(some) for name, some in seconds.items()} == {"A": 3, "B": 3}
    assert len(moved) == 8 and min(min(some) for some in seconds.values()) >= 0


def test_ratio_is_taken_repeat_by_repeat():
    ours, theirs = [1.0, 2.0, 4.0], [3.0, 2.0, 16.0]
    assert spread(ours) == Spread(2.0, 1.0, 4.0)
    assert ratio(theirs, ours) == Spread(3.0, 1.0, 4.0)
    assert spread(ours).scaled(2) == Spread(4.0, 2.0, 8.0)
    with pytest.raises(ValueError):
        ratio(theirs, ours[:2])


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
        h = model(batch)  # keeps batch and the weight
        return (h.exp() * h).sum()  # keeps exp(h), for both, and h

    monkeypatch.setattr("resmlp_mt.benchmark.held.loss_of", loss)
    linear, batch = torch.nn.Linear(4, 3), torch.zeros(2, 4)
    assert saved_bytes(linear, None, batch) == 4 * (8 + 6 + 6)


def event(name, own, parent=None, shapes=None, named=False):
    """What sum_parts looks at in a profile's event."""
    cpu = torch.autograd.DeviceType.CPU
    return SimpleNamespace(
        name=name,
        own=own,
        cpu_parent=parent,
        input_shapes=shapes,
        is_user_annotation=named,
        device_type=cpu,
    )


def test_parts_of_a_profile():
    decoder = event("EnsembleModel: forward_decoder", 100, named=True)
    linear = event("aten::linear", 2, decoder, [[4, 8], [16, 8]])
    output = event("aten::linear", 3, decoder, [[4, 8], [1000, 8]])
    softmax = event("aten::logsumexp", 5, decoder)
    events = [
        *(decoder, linear, output, softmax),
        event("aten::addmm", 10, linear, [[16], [4, 8], [8, 16]]),
        event("aten::addmm", 20, output),
        event("aten::sum", 40, softmax),
        event("aten::amax", 80, softmax),
        event("aten::gelu", 7, decoder),
    ]
    found = sum_parts(events, 1000, lambda event: event.own, recording=1)
    assert {part: time for part, time in found.items() if time} == {
        LINEAR: 11,  # one event recorded within the first
        OUTPUT: 22,
        SOFTMAX: 5 - 2 + 40 + 80,
        OTHERS: 7,
    }


def test_options_have_the_types_of_fairseq_train():
    given = [
        "dropout=0.3",
        "decoder-layers=3",
        "no_token_mixing_bias=true",
        "token_mixing=toeplitz",
    ]
    assert parse_options("--arch-option", "resmlp_mt_tiny", given) == {
        "dropout": 0.3,
        "decoder_layers": 3,
        "no_token_mixing_bias": True,
        "token_mixing": "toeplitz",
    }


def test_the_baseline_has_our_sizes():
    args = parse(["decode", "--quick", "--arch-option", "decoder_layers=3"])
    ours, theirs = Pair(args, 6, 11).options
    for name in ("decoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "dropout"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert theirs.share_all_embeddings and theirs.max_target_positions == 256
    args = parse(["decode", "--quick", "--baseline", "transformer_iwslt_de_en"])
    assert Pair(args, 6, 11).options[1].encoder_embed_dim == 512
    args = parse(["decode", "--quick", "--baseline-option", "decoder_layers=1"])
    assert [options.decoder_layers for options in Pair(args, 6, 11).options] == [4, 1]


def test_decode(tmp_path, monkeypatch, capsys):
    out = tmp_path / "deep" / "er"
    assert call(benchmark, monkeypatch, "decode", *SMALL, "--out", out) == 0
    printed = capsys.readouterr().out
    assert "resmlp_mt_tiny" in printed and "10 words and an end of sentence" in printed
    assert [path.name for path in out.iterdir()] == ["decode.json"]
    found = json.loads((out / "decode.json").read_text())
    assert found["command"].startswith("scripts/benchmark.py decode --arch-option")
    assert {"machine", "versions", "settings", "models"} <= set(found)
    assert [line["target_words"] for line in found["lines"]] == [5, 10]
    for line in found["lines"]:
        assert list(line["columns"]) == ["resmlp_mt_tiny", "transformer"]
        for column in line["columns"].values():
            assert column["output_tokens"] == 2 * (line["target_words"] + 1)
            assert len(column["seconds"]) == 2
            assert set(column["speed"]) == {"median", "low", "high"}
            assert column["counted"]["multiply_adds"] > 0
        assert line["columns"]["resmlp_mt_tiny"]["counted"]["speed"] > 1


@pytest.mark.parametrize(
    "mode, files, part",
    [
        ("train", [], "lines"),
        ("shares", [], "lines"),
        ("memory", ["memory"], "decoding"),
        ("length", ["length-source", "length-target"], "by_source_length"),
    ],
)
def test_other_modes(mode, files, part, tmp_path, monkeypatch, capsys):
    options = list(map(str, SMALL))
    if mode == "train":
        options = options[: options.index("--sentences")] + options[options.index("--vocabulary") :]
    assert call(benchmark, monkeypatch, mode, *options, "--out", tmp_path) == 0
    found = json.loads((tmp_path / f"{mode}.json").read_text())
    assert found["models"]["transformer"]["parameters"] > 0
    assert all({"resmlp_mt_tiny", "transformer"} == set(line["columns"]) for line in found[part])
    pictures = {f"{name}.{suffix}" for name in files for suffix in ("png", "svg")}
    assert {path.name for path in tmp_path.iterdir()} == pictures | {f"{mode}.json"}
    for name in files:
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()


def test_sentences_of_real_data(corpus, tmp_path, monkeypatch, capsys):
    def lines(mode, *arguments):
        given = ["--quick", "--repeats", 1, "--data", corpus.data, "--out", tmp_path, *arguments]
        assert call(benchmark, monkeypatch, mode, *given) == 0
        return json.loads((tmp_path / f"{mode}.json").read_text())["lines"]

    text = (corpus.text / "test.xx").read_text().splitlines()
    own = lines("decode", "--sentences", 11, "--target-length", 3)
    assert [line["source_tokens"] for line in own] == [max(len(line.split()) for line in text) + 1]
    assert [line["source_tokens"] for line in lines("decode", "--source-length", 4, 12)][-1] == 13
    (batch,) = lines("train", "--tokens", 50)
    assert batch["sentences"] > 1 and batch["tokens"] < batch["sentences"] * batch["target_tokens"]
    (batch,) = lines("train", "--tokens", 50, "--target-length", 4)
    assert (batch["sentences"], batch["tokens"], batch["target_tokens"]) == (10, 50, 5)
    many = ["decode", "--quick", "--data", corpus.data, "--sentences", 12]
    assert call(benchmark, monkeypatch, *many) == 1
    assert "has 11 in test that fit" in capsys.readouterr().err


def test_refusals(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    cases = [
        (["--arch", "nope"], "--arch nope: choose one of resmlp_mt_12"),
        (["--arch-option", "nope=1"], "resmlp_mt_tiny has no option nope"),
        (["--arch-option", "dropout=much"], "'much' is no value of dropout"),
        (["--arch-option", "dropout"], "write it as key=value"),
        (["--arch-option", "token_mixing=nope"], "choose one of linear, toeplitz"),
        (["--baseline-option", "decoder_layers=0"], "decoder_layers=0: must be at least 1"),
        (["--baseline-option", "encoder_attention_heads=3"], "transformer: "),
        (["--positions", 10], "--target-length 10: with its end of sentence that is 11 tokens"),
        (["--threads", 0], "--threads 0: must be at least 1"),
        (["--target-length", 5, 0], "--target-length 0: must be at least 1"),
        (["--warmup", -1], "--warmup -1: must be at least 0"),
        (["--beam", 500], "--vocabulary 1000: must be at least 1004"),
        (["--data", tmp_path / "none"], "none: No such file"),
        (["--data", tmp_path], "no binary data in it"),
        (["--out", tmp_path / "file"], "--out"),
    ]
    for arguments, said in cases:
        assert call(benchmark, monkeypatch, "decode", "--quick", *arguments) == 1
        printed = capsys.readouterr().err.strip()
        assert said in printed and len(printed.splitlines()) == 1


def test_ctranslate2_runs_the_same_model():
    """Beam search of the converted Transformer finds fairseq's translations and their scores."""
    pytest.importorskip("ctranslate2")
    options = ["--beam", "3", "--seed", "3", "--arch-option", "share_all_embeddings=false"]
    args = parse(["decode", *map(str, SMALL), *options])
    pair = Pair(args, 8, 21)
    model, task = pair.models()[1], pair.task
    words = task.target_dictionary
    randomize_(model)
    with torch.no_grad():
        # along the bias of all states: sentences end of themselves, and never in padding, which
        # CTranslate2 does not rule out
        output, bias = (
            model.decoder.output_projection,
            model.decoder.layers[-1].final_layer_norm.bias,
        )
        output.weight[words.eos()] += 2 * bias / bias.square().sum()
        output.weight[words.pad()] = -10 * bias / bias.square().sum()
    make_ready(model, 3)
    batch = Sentences(task, args).source_batch(6, 7)
    # without a forced length, since CTranslate2 normalizes over those words that it may take
    generator = task.build_generator([model], Namespace(beam=3, max_len_b=20, min_len=0))
    ours = [found[0] for found in task.inference_step(generator, [model], batch)]
    translator = load_translator(model, pair.options[1], task, "float32", "cpu", 1)
    sources = as_words(batch, task.source_dictionary)
    search = dict(beam_size=3, min_decoding_length=0, max_decoding_length=20, return_scores=True)
    theirs = translator.translate_batch(sources, **search)
    translations = [[words[word] for word in found["tokens"][:-1]] for found in ours]
    assert [result.hypotheses[0] for result in theirs] == translations
    for found, result in zip(ours, theirs):
        assert result.scores[0] == pytest.approx(found["score"].item(), abs=1e-4)
    assert len(set(map(len, translations))) > 3 and max(map(len, translations)) < 20


def test_ctranslate2_makes_as_many_tokens(monkeypatch, capsys):
    pytest.importorskip("ctranslate2")
    columns = ["--ctranslate2", "float32", "int8", "--precision", "int8"]
    assert call(benchmark, monkeypatch, "decode", *SMALL, "--target-length", 6, *columns) == 0
    printed = capsys.readouterr().out
    assert "CTranslate2 int8" in printed and "resmlp_mt_tiny int8" in printed
