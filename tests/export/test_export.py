"""An exported model translates as PyTorch does, whatever it is made of."""

import copy
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import hostile_lines
import numpy as np
import onnx
import pytest
import torch
from exported_models import LINES, SHARED, apart, random_model, saved_model, sentences, with_model
from fairseq.data.indexed_dataset import make_builder

from resmlp_mt.cli.main import main
from resmlp_mt.errors import UserError
from resmlp_mt.export.folder import export, substitutions
from resmlp_mt.export.graphs import exported
from resmlp_mt.export.runtime import WEIGHTS, ExportedModel, read_arrays
from resmlp_mt.export.verification import verify
from resmlp_mt.export.weights import quantize
from resmlp_mt.files import _own_name
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt.text.lines import one_line
from resmlp_mt.text.normalise import Normaliser

TYPOGRAPHY = ["„Ja“ – sagt ‚er‘ …", "12 %", "5\u00a0000\u00a0; « oui »", "a\u00adb (c ) ``d''"]
TYPOGRAPHY += ['Er sagte: "Ja."', "„Ja.“ Dann", "«\u00a0Oui\u00a0»"]


# the norm, and whether embeddings are shared, alternate over the kinds of mixing
KINDS = [("linear", 1), ("linear", 4), ("toeplitz", 1), ("gated", 4), ("none", 1)]
CASES = [
    (kind, heads, ("affine", "layernorm")[(i + j) % 2], bool(j))
    for i, (kind, heads) in enumerate(KINDS)
    for j in range(2)
]


@pytest.mark.parametrize("kind, heads, norm, tied", CASES)
def test_same_translations(plain, tmp_path, kind, heads, norm, tied):
    model, _ = random_model(
        plain.options.data,
        token_mixing=kind,
        token_mixing_heads=heads,
        normalization=norm,
        **(SHARED if tied else {}),
        token_positional_embeddings=kind == "none",
        decoder_learned_pos=tied,
    )
    theirs = with_model(plain.translator, model, beam=4)
    sources = sentences(theirs)
    export(theirs, tmp_path / "out", "float32")
    exported, lengths = ExportedModel(tmp_path / "out", threads=1, graph=True), []
    for beam, lenpen in ((1, 0.6), (4, 0.6), (8, 1.4)):
        expected = with_model(plain.translator, model, beam, lenpen).nbest(sources)
        ours = exported.search(sources, beam=beam, lenpen=lenpen, nbest=beam)
        other, gap = apart(ours, expected)
        # one of a thousand decisions may be a tie but for rounding
        assert other <= 1 and gap < 1e-4
        lengths += [len(hypothesis.pieces) for one in ours for hypothesis in one]
    assert max(lengths) > 16 or kind == "none"  # past the first room of the memory


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    options = saved_model(folder, token_mixing_heads=2)
    translator = Translator(options)
    export(translator, folder / "out", "float32")
    return SimpleNamespace(options=options, translator=translator, out=folder / "out")


def test_any_batch(plain):
    """A sentence has the same translation alone and among others, in any order."""
    exported = ExportedModel(plain.out, threads=1)
    lines = [*LINES, "", "red dog", *LINES[::-1], "  "]
    together = exported.translate(lines)
    assert together == [exported.translate([line], max_tokens=1)[0] for line in lines]
    assert together[4] == together[-1] == ""
    assert len({*together}) == len({*LINES}) + 2
    assert list(exported.stream(iter(lines)))[5][0].text == together[5]


def test_a_model_that_differs_is_not_written(plain, tmp_path, monkeypatch):
    """float32 is compared for rounding, less for whether it is another model."""
    for limit, precision in (("ROUNDING", "float32"), ("OTHER", "int8"), ("OTHER", "float16")):
        with monkeypatch.context() as patch, pytest.raises(UserError, match="differs from PyTorch"):
            patch.setattr(f"resmlp_mt.export.verification.{limit}", 0)
            export(plain.translator, tmp_path / "out", precision)
    assert not list(tmp_path.iterdir())
    export(plain.translator, tmp_path / "out", "int8")
    model, _ = random_model(plain.options.data, normalization="layernorm")
    other = with_model(plain.translator, model, beam=4)
    with pytest.raises(UserError, match="differs from PyTorch .*: float32 may help"):
        verify(other, tmp_path / "out", "int8")


@pytest.mark.parametrize("precision", ["int8", "float16"])
def test_smaller(plain, tmp_path, precision):
    """Rounding to 8 or 11 bits: neither nothing nor another model."""
    export(plain.translator, tmp_path / "out", precision)
    sources = sentences(plain.translator)
    smaller, whole = (
        ExportedModel(folder, 1, graph=True).search(sources)
        for folder in (tmp_path / "out", plain.out)
    )
    _, gap = apart(smaller, whole)
    assert 1e-6 < gap < (0.2 if precision == "int8" else 0.02)
    sizes = [(f / WEIGHTS).stat().st_size for f in (tmp_path / "out", plain.out)]
    assert sizes[0] < 0.6 * sizes[1]
    assert all(ExportedModel(tmp_path / "out").translate(LINES))


def test_int8_does_not_saturate_without_vnni():
    """Two neighbouring products with inputs of 255 fit 16 bits, and no weight is far off."""
    weight = np.random.default_rng(0).standard_normal((31, 200)).astype(np.float32)
    weight[:2, 0] = weight[:, 0].max()  # neighbours that are both the largest
    rounded, scale = quantize(weight)
    pairs = np.pad(rounded.astype(int), ((0, 1), (0, 0))).reshape(16, 2, 200).sum(1)
    assert 255 * np.abs(pairs).max() < 2**15
    assert np.abs(rounded * scale - weight).max() <= scale.max() / 2 + 1e-6
    assert np.abs(rounded).max() > 90


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_step_is_lean(plain, precision):
    """The published model has as many layers; what reads arrays alone is done at loading."""
    model, _ = random_model(plain.options.data, token_mixing="gated", decoder_layers=3, **SHARED)
    files, sizes = exported(model, precision)
    step = onnx.load_from_string(files["step.onnx"])
    known = {array.name for array in step.graph.initializer}
    for node in step.graph.node:
        if known.issuperset(node.input):
            known.update(node.output)
    assert sum(not known.issuperset(node.output) for node in step.graph.node) <= 67
    assert [node.op_type for node in step.graph.node].count("Transpose") == 1
    # one embedding, which is the output layer
    table = [model.encoder.embed_tokens.embedding_dim, len(model.encoder.dictionary)]
    arrays = read_arrays(files[WEIGHTS])
    assert [name for name, x in arrays.items() if list(x.shape) == table] == [
        "decoder.output.weight"
    ]
    assert [name for name, _ in sizes["embeddings"]] == ["decoder.output"] * 2


def test_the_file_of_the_weights(plain):
    """Other programs read it: the library of the format, and onnx the graphs beside it."""
    stored = read_arrays((plain.out / WEIGHTS).read_bytes())
    for side in ("encoder", "step"):
        path = plain.out / f"{side}.onnx"
        onnx.checker.check_model(str(path))
        loaded = onnx.load(str(path)).graph.initializer
        arrays = {x.name: onnx.numpy_helper.to_array(x) for x in loaded if x.name in stored}
        assert len(arrays) > 9
        for name, x in arrays.items():
            assert np.array_equal(x, stored[name])


@pytest.mark.parametrize("where", ["beside", "of a run", "given"])
def test_compared_with_real_sentences(plain, tmp_path, where):
    """Their translations and BLEU are told; without any nothing is said of other text."""
    said = export(plain.translator, tmp_path / "none", "float32")
    assert "No text to compare" in said
    folder = tmp_path / "model" if where == "beside" else tmp_path / "data" / "data-bin"
    shutil.copytree(plain.options.data, tmp_path / "model")
    folder.mkdir(parents=True, exist_ok=True)
    task = plain.translator.task
    lines = ["", *(" ".join(source) for source in sentences(plain.translator)[:4])]
    for language, dictionary in ("en", task.source_dictionary), ("de", task.target_dictionary):
        builder = make_builder(f"{folder}/valid.en-de.{language}.bin", "mmap", 99)
        for line in lines:
            builder.add_item(dictionary.encode_line(line, add_if_not_exist=False))
        builder.finalize(f"{folder}/valid.en-de.{language}.idx")
    other = copy.copy(plain.translator)
    other.options = replace(other.options, data=tmp_path / "model")
    texts = [["", *LINES, "red dog"], ["no", *LINES, "red dog"]] if where == "given" else []
    said = export(other, tmp_path / "new" / "out", "int8", texts)
    number = 5 if texts else 4
    found = re.fullmatch(
        rf"[0-5] of {number} sentences .*; BLEU \d+\.\d\d, by PyTorch \d+\.\d\d", said
    )
    assert found and said in (tmp_path / "new" / "out" / "README.md").read_text()


def test_texts_to_verify_that_do_not_fit(plain, tmp_path, capsys):
    for name, text in (("a", "red\n"), ("b", "red\ndog\n"), ("blank", "\n")):
        (tmp_path / name).write_text(text)
    words = ["export", *plain.options.paths, "--data", plain.options.data]
    words += ["--out", tmp_path / "out"]
    for names, message in (("a b", "line by line"), ("a a a", "give a text"), ("blank", "blank")):
        texts = [tmp_path / name for name in names.split()]
        assert main([*map(str, words), "--verify", *map(str, texts)]) == 1
        assert message in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_what_a_killed_export_has_left_is_removed(plain, tmp_path):
    with mock.patch("os.getpid", return_value=10**8):  # there is no such process
        stale = Path(_own_name(str(tmp_path / "out")))
    stale.mkdir()
    (stale / "encoder.onnx").touch()
    export(plain.translator, tmp_path / "out", "float32")
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]


def test_normalised_text(tmp_path):
    """Lines with what the normaliser changes are split as `resmlp-mt translate` splits them."""
    options = saved_model(tmp_path, normalise=True)
    export(Translator(options), tmp_path / "out", "float32")
    exported, settings = ExportedModel(tmp_path / "out"), options.text
    lines = [*TYPOGRAPHY, *hostile_lines.FIXED]
    for line in lines:
        assert exported.pieces(line) == settings.encode_source(line), ascii(line)
    for language in ("de", "de_AT", "fr", "zh"):
        rules, normaliser = substitutions(language), Normaliser(language)
        for line in (line + end for line in lines for end in ("", " ", "\r", "\x07 ")):
            text = line
            for pattern, replacement in rules:
                text = re.sub(pattern, replacement, text)
            assert one_line(text) == normaliser(line), ascii(line)


def test_what_cannot_be_exported(plain, tmp_path):
    """One line says why, and nothing is left of a folder."""

    def refused(message, what):
        before = sorted(tmp_path.iterdir())
        with pytest.raises(UserError, match=message) as error:
            export(what, tmp_path / "out", "float32")
        assert "\n" not in str(error.value) and sorted(tmp_path.iterdir()) == before

    for message, options in (
        ("--activation-fn", {"activation_fn": "relu_squared"}),
        ("the token mixing ConvTokenMixing cannot be exported", {"token_mixing": "conv"}),
    ):
        model, _ = random_model(plain.options.data, **options)
        refused(message, with_model(plain.translator, model, 4))
    other = copy.copy(plain.translator)
    other.models = [torch.nn.Linear(2, 2)]
    refused("model.pt is a checkpoint of another model", other)
    other.models = plain.translator.models * 2
    refused("an ensemble cannot be exported", other)
    (tmp_path / "out").mkdir()
    refused("out already exists", plain.translator)
