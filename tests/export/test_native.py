"""The native runtime finds the hypotheses of the graph, whatever the model is made of."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from exported_models import (
    LINES,
    SHARED,
    apart,
    change_file,
    changed_config,
    changed_weights,
    random_model,
    saved_model,
    sentences,
    with_model,
)

from resmlp_mt.cli.main import main
from resmlp_mt.export.folder import write_model
from resmlp_mt.export.runtime import WEIGHTS, ExportedModel, TranslationError
from resmlp_mt.pipeline.translate.translator import Translator

# heads of 10 channels, and more than 32 of them in all
ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1}
NATIVE = Path(__file__).parents[2] / "native"
WIDE = {"encoder_embed_dim": 40, "decoder_embed_dim": 40, "normalization": "layernorm"}


@pytest.fixture(scope="module", autouse=True)
def installed(native_wheel):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(native_wheel)
        yield


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return Translator(saved_model(tmp_path_factory.mktemp("native"), token_mixing="gated"))


def exported(plain, out, precision="float32", **options):
    model, _ = random_model(plain.options.data, **options)
    out.mkdir()
    write_model(with_model(plain, model, beam=4), model, out, precision)
    return out


def both(folder):
    return ExportedModel(folder, 1, graph=True), ExportedModel(folder, 1)


CASES = [
    dict(token_mixing="gated", token_mixing_heads=4, **WIDE),
    dict(token_mixing="gated", activation_fn="relu", **SHARED),
    dict(token_mixing="toeplitz", normalization="layernorm"),
    dict(
        token_mixing="linear",
        token_mixing_heads=3,
        encoder_embed_dim=15,
        decoder_embed_dim=15,
        encoder_attention_heads=3,
        decoder_attention_heads=3,
    ),
    dict(token_mixing="none", token_positional_embeddings=True, **SHARED),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_same_hypotheses(plain, tmp_path, number):
    graph, native = both(exported(plain, tmp_path / "out", **CASES[number]))
    sources = [*sentences(graph), []]
    for beam, lenpen, limit in ((1, 0.6, 20), (4, 1.4, 39), (8, -1.0, 3), (44, 0.0, 1)):
        search = dict(beam=beam, nbest=beam, lenpen=lenpen, max_len_b=limit)
        other, gap = apart(*(model.search(sources, **search) for model in (graph, native)))
        # one of a thousand decisions may be a tie but for rounding
        assert other <= 1 and gap < 1e-3


@pytest.fixture(scope="module")
def int8(plain, tmp_path_factory):
    folder = tmp_path_factory.mktemp("int8") / "out"
    return exported(plain, folder, "int8", token_mixing="gated", **WIDE, **SHARED)


@pytest.mark.parametrize("kernel", ["avx2", "avx512", "amx", "neon"])
def test_kernels(plain, int8, tmp_path, monkeypatch, kernel):
    """Every kernel of this CPU has the same integers: they differ by rounding alone."""

    def search(folder, kernel, **options):
        monkeypatch.setenv("RESMLP_MT_KERNEL", kernel)
        model = ExportedModel(folder, 1)
        return model.search(sentences(model), **options)

    try:
        search(int8, kernel)
    except TranslationError as error:
        assert f"no kernel '{kernel}'" in str(error)
        pytest.skip(str(error))
    odd = exported(plain, tmp_path / "odd", "int8", **CASES[3])
    half = exported(plain, tmp_path / "half", "float16", **CASES[2])
    for folder in (int8, odd, half):
        for options in (dict(beam=1), dict(beam=4, nbest=4)):
            other, gap = apart(*(search(folder, k, **options) for k in ("plain", kernel)))
            assert other <= 1 and gap < 1e-3


def test_int8_is_near_the_graph(plain, tmp_path):
    """It rounds inputs by row, the graph those of the decoder by batch."""
    models = both(exported(plain, tmp_path / "out", "int8", **CASES[2]))
    scores = [[found[0].score for found in m.search(sentences(m), beam=4)] for m in models]
    assert 0 < np.median(np.abs(np.subtract(*scores))) < 0.1


def test_any_batch_and_threads(int8):
    """Rows never mix: a sentence is translated in the same way in any company."""
    sources = [*sentences(ExportedModel(int8)), []] * 3
    alone = ExportedModel(int8, 1).search(sources, beam=4, nbest=4, max_tokens=1)
    for threads in (1, 2, 5):
        assert ExportedModel(int8, threads).search(sources, beam=4, nbest=4) == alone


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_scores_that_are_not_finite(plain, tmp_path, precision):
    model, _ = random_model(plain.options.data, token_mixing="gated")
    model.decoder.layers[0].feed_forward.fc1.bias.data[3] = float("nan")
    (tmp_path / "out").mkdir()
    write_model(with_model(plain, model, beam=4), model, tmp_path / "out", precision)
    native = ExportedModel(tmp_path / "out", 1)
    assert native.search(sentences(native)) == [[]] * len(sentences(native))


def test_the_command(plain, int8, tmp_path):
    (tmp_path / "in").write_text("\n".join(LINES) + "\n\n")
    words = ["translate", "--path", int8, "--input", tmp_path / "in", "--output", tmp_path / "out"]
    assert main([*map(str, words), "--threads", "1"]) == 0
    expected = ExportedModel(int8, 1).translate([*LINES, ""])
    assert (tmp_path / "out").read_text() == "".join(f"{line}\n" for line in expected)
    checkpoint = plain.options.paths[0]
    assert main(["translate", "--path", str(checkpoint), "--graph"]) == 1


def test_the_native_runtime_translates_where_it_is_installed(int8, monkeypatch):
    """And the graph elsewhere, or where it is asked for."""

    def engine(**options):
        return ExportedModel(int8, 1, **options).search_engine

    assert engine()._native and not hasattr(engine(), "_encoder")
    assert engine(graph=True)._native is None
    monkeypatch.setitem(sys.modules, "resmlp_mt_native", None)
    assert engine()._native is None
    monkeypatch.setitem(sys.modules, "resmlp_mt_native", object())  # a wheel that is broken
    with pytest.raises(TranslationError, match="the native runtime: .*: install the wheel again"):
        engine()


@pytest.mark.parametrize(
    "name, change",
    [
        (WEIGHTS, changed_weights(lambda arrays: arrays.pop("decoder.0.query.scale"))),
        (
            WEIGHTS,
            changed_weights(lambda arrays: arrays["decoder.output.weight"]["shape"].reverse()),
        ),
        (WEIGHTS, changed_weights(lambda arrays: arrays.update(x=arrays["decoder.0.query.bias"]))),
        ("config.json", changed_config(mixing="linear")),
        ("config.json", changed_config(mixing="self-attention")),
    ],
)
def test_hostile_folders(int8, tmp_path, name, change):
    folder = shutil.copytree(int8, tmp_path / "bad")
    change_file(folder, name, change)
    with pytest.raises(TranslationError, match=str(folder)) as error:
        ExportedModel(folder, 1)
    assert "\n" not in str(error.value)


def test_hostile_arrays_do_not_touch_other_memory(plain, tmp_path):
    """What folders may give the native runtime, one change at a time, under AddressSanitizer."""
    compiler = next(filter(None, map(shutil.which, ("g++", "c++"))))
    package = shutil.copytree(NATIVE / "resmlp_mt_native", tmp_path / "resmlp_mt_native")
    words = ["-std=gnu++17", "-O1", "-g", "-shared", "-fPIC", "-pthread", "-fsanitize=address"]
    made = [NATIVE / "step.cpp", "-o", package / "libresmlp_mt_step.so"]
    subprocess.run([compiler, *words, *made], check=True)
    asan = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True)
    folders = [
        exported(plain, tmp_path / f"{number}", precision, **{**CASES[number], **ONE_LAYER})
        for number, precision in ((0, "int8"), (3, "float32"))
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "LD_PRELOAD": asan.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "OMP_NUM_THREADS": "1",
    }
    program = [sys.executable, NATIVE.parent / "tests/support/hostile_native.py", *folders]
    done = subprocess.run(program, capture_output=True, text=True, env=environment, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    refused, translated = map(int, re.findall(r"\d+", done.stdout))
    assert refused > 1000 and translated > 100
