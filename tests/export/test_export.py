"""The folder that `resmlp-mt export` writes, and what it says of it."""

import copy
import os
import re
import shlex
import shutil
import unicodedata
from dataclasses import replace

import hostile_lines
import numpy as np
import pytest
import torch
from command import ran
from exported_models import LINES, SHARED, random_model, sentences, with_model
from fairseq.data.indexed_dataset import make_builder

from resmlp_mt.export.folder import _of_texts, export, verify
from resmlp_mt.export.weights import quantize, weights_of
from resmlp_mt.pipeline.score import score
from resmlp_mt_runtime import Model, UserError


def test_a_model_that_differs_is_not_written(plain, tmp_path, monkeypatch):
    """float32 is compared for rounding, less for whether it is another model."""
    for limit, precision in (("ROUNDING", "float32"), ("OTHER", "int8"), ("OTHER", "float16")):
        with monkeypatch.context() as patch, pytest.raises(UserError, match="differs from PyTorch"):
            patch.setattr(f"resmlp_mt.export.folder.{limit}", 0)
            export(plain, tmp_path / "out", precision)
    assert not list(tmp_path.iterdir())
    export(plain, tmp_path / "out", "int8")
    other = with_model(plain, random_model(plain.options.data, token_mixing="gated"))
    with pytest.raises(UserError, match="differs from PyTorch .*: float32 may help"):
        verify(other, tmp_path / "out", "int8")


def test_other_translations_are_counted_and_not_refused(plain, tmp_path, monkeypatch):
    """Rounding may lead a search elsewhere: the model is the same as long as its scores are."""
    texts, found = [LINES], Model.translations
    other = {"beam": 1, "max_len_b": 2}
    monkeypatch.setattr(Model, "translations", lambda *args: found(*args, **other))
    assert export(plain, tmp_path / "out", "float32", texts).startswith("0 of 4 lines")


def test_int8_does_not_saturate_without_vnni():
    """Two neighbouring products with inputs of 255 fit 16 bits, and no weight is far off."""
    weight = np.random.default_rng(0).standard_normal((31, 200)).astype(np.float32)
    weight[:2, 0] = weight[:, 0].max()  # neighbours that are both the largest
    rounded, scale = quantize(weight)
    pairs = np.pad(rounded.astype(int), ((0, 1), (0, 0))).reshape(16, 2, 200).sum(1)
    assert 255 * np.abs(pairs).max() < 2**15
    assert np.abs(rounded * scale - weight).max() <= scale.max() / 2 + 1e-6
    assert np.abs(rounded).max() > 90


@pytest.mark.parametrize("tied", [False, True])
def test_equal_matrices_are_stored_once(plain, tied):
    model = random_model(plain.options.data, **(SHARED if tied else {}))
    weights, sizes = weights_of(model, "int8")
    table = (model.encoder.embed_tokens.embedding_dim, len(model.encoder.dictionary))
    stored = [name for name, array in weights.items() if array.shape == table]
    names = [] if tied else ["encoder.embedding", "decoder.embedding"]
    assert sorted(stored) == sorted(f"{name}.weight" for name in [*names, "decoder.output"])
    assert [name for name, _ in sizes["embeddings"]] == (names or ["decoder.output"] * 2)
    total = sum(array.nbytes for array in weights.values())
    assert total < 0.6 * sum(array.nbytes for array in weights_of(model, "float32")[0].values())


def test_the_command(plain, tmp_path):
    """What it says, and the search that it stores: that of the training, if there was one."""
    data = shutil.copytree(plain.options.data, tmp_path / "data")
    checkpoint = shutil.copyfile(plain.options.paths[0], tmp_path / "model.pt")
    (tmp_path / "search.json").write_text('{"lenpen": 1.2}')
    (tmp_path / "text").write_text("\n".join(["", *LINES]) + "\n")
    out = tmp_path / os.fsdecode("l'mod\xe8le".encode("latin-1"))
    words = ("export", checkpoint, "--data", data, "--out", out)
    said = ran(*words, "--verify", tmp_path / "text").out
    assert re.search(r"0\.\d MB, float32\n[34] of 4 lines are translated as in PyTorch\n", said)
    card = (out / "README.md").read_text("utf-8", "surrogateescape")
    assert "beam 4, length penalty 1.2" in card
    assert f"_runtime {shlex.quote(out.name)} <" in card and f"Model({out.name!r})" in card
    model = Model(out)
    stored = model.config["search"]
    for line in [*hostile_lines.FIXED, "„Ja“ – sagt ‚er‘ …", "« oui »", 'Er sagte: "Ja."']:
        assert model.pieces(line) == plain.pieces(line), ascii(line)
    assert (stored["beam"], stored["lenpen"], stored["no_repeat_ngram_size"]) == (4, 1.2, 0)


def test_compared_with_real_sentences(plain, tmp_path):
    """The validation set beside the data; without any nothing is said of other text."""
    said = export(plain, tmp_path / "none", "float32")
    assert "were not compared with PyTorch's: no text (--verify FILE gives one)" in said
    folder = shutil.copytree(plain.options.data, tmp_path / "model")
    task = plain.task
    lines = ["", *(" ".join(source) for source in sentences(plain)[:4])]
    for language, dictionary in ("en", task.source_dictionary), ("de", task.target_dictionary):
        builder = make_builder(f"{folder}/valid.en-de.{language}.bin", "mmap", 99)
        for line in lines:
            builder.add_item(dictionary.encode_line(line, add_if_not_exist=False))
        builder.finalize(f"{folder}/valid.en-de.{language}.idx")
    other = copy.copy(plain)
    other.options = replace(other.options, data=folder)
    said = export(other, tmp_path / "new" / "out", "int8")
    assert re.fullmatch(r"[0-4] of 4 lines .*; BLEU \d+\.\d\d, in PyTorch \d+\.\d\d", said)
    assert said in (tmp_path / "new" / "out" / "README.md").read_text()
    # of another model, where `run` would have its data
    shutil.copytree(folder, tmp_path / "data" / "data-bin")
    (tmp_path / "data" / "data-bin" / "dict.en.txt").write_text("other 1\n")
    for path in folder.glob("valid.*"):
        path.unlink()
    assert "were not compared" in export(other, tmp_path / "other", "float32")


def test_long_lines_and_chinese_are_compared_as_they_are_translated(plain, tmp_path):
    """BLEU is that of `score` for what `translate` writes."""
    translator = copy.copy(plain)
    translator.task = copy.copy(translator.task)
    translator.task.cfg = copy.copy(translator.task.cfg)
    translator.task.cfg.target_lang = "zh"
    texts = [" ".join([f"{line}."] * 5) for line in LINES]
    export(translator, tmp_path / "out", "float32")
    found = Model(tmp_path / "out").translate(texts)
    references = [f"{text} 我喜欢茶" for text in found]
    said = verify(translator, tmp_path / "out", "float32", [texts, references])
    bleu = score(found, references, "zh")["bleu"]
    assert f"; BLEU {bleu:.2f}, in PyTorch " in said
    decomposed = [unicodedata.normalize("NFD", line) for line in ("für", "é")]
    assert _of_texts(translator, [LINES[:2], decomposed])[1] == ["für", "é"]
    assert 0 < bleu != score(found, references)["bleu"]


def test_what_cannot_be_exported(plain, tmp_path):
    def refused(message, what):
        before = sorted(tmp_path.iterdir())
        with pytest.raises(UserError, match=message) as error:
            export(what, tmp_path / "out", "float32")
        assert "\n" not in str(error.value) and sorted(tmp_path.iterdir()) == before

    no_end = {"normalization": "layernorm", "no_decoder_final_norm": True}
    for message, options in (
        ("only models with --activation-fn relu", {"activation_fn": "relu_squared"}),
        ("only models with --token-mixing linear, toeplitz", {"token_mixing": "none"}),
        ("only models with a final LayerNorm", no_end),
        ("a model without encoder or decoder layers cannot", {"encoder_layers": 0}),
        ("a model without encoder or decoder layers cannot", {"decoder_layers": 0}),
    ):
        refused(message, with_model(plain, random_model(plain.options.data, **options)))
    model = random_model(plain.options.data)
    mixing = model.encoder.layers[1].token_mixing.mixing  # of another kind than the decoder's
    model.encoder.layers[1].token_mixing.mixing = torch.nn.Identity()
    refused("only models with --token-mixing linear, toeplitz", with_model(plain, model))
    model.encoder.layers[1].token_mixing.mixing = mixing
    branch = model.encoder.layers[1].feed_forward
    before, branch.pre = branch.pre, torch.nn.RMSNorm(16)
    refused("only models with resmlp_mt's own layers", with_model(plain, model))
    branch.pre = before
    for value, precision, remedy in (
        (1e6, "float16", "leave out --float16 and --int8"),
        (float("nan"), "float32", "export another checkpoint"),
    ):
        model.encoder.layers[0].feed_forward.fc1.weight.data.fill_(value)
        with pytest.raises(UserError, match=f"^encoder.0.first.weight has values .*: {remedy}$"):
            weights_of(model, precision)
    other = copy.copy(plain)
    other.models = [torch.nn.Linear(2, 2)]
    refused("model.pt is a checkpoint of another model", other)
    other.models = plain.models * 2
    refused("an ensemble cannot be exported", other)
    (tmp_path / "out").mkdir()
    refused("out already exists", plain)
