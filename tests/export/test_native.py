"""The native step finds the hypotheses of the graph, whatever the model is made of."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from exported_models import LINES, SHARED, apart, random_model, saved_model, sentences, with_model

from resmlp_mt.cli.main import main
from resmlp_mt.export.folder import write_model
from resmlp_mt.export.runtime import ExportedModel, TranslationError
from resmlp_mt.pipeline.translate.translator import Translator

# heads of 10 channels, and more than 32 of them in all
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


def both(folder, threads=1):
    return ExportedModel(folder, threads), ExportedModel(folder, threads, native=True)


def same(graph, native, sources, tolerance=1e-3, **search):
    """How many sentences have other hypotheses; scores of the same are close."""
    other, gap = apart(graph.search(sources, **search), native.search(sources, **search))
    assert gap < tolerance
    return other


CASES = [
    dict(token_mixing="gated", token_mixing_heads=4, **WIDE),
    dict(token_mixing="gated", activation_fn="relu", **SHARED),
    dict(token_mixing="toeplitz", activation_fn="gelu_accurate", normalization="layernorm"),
    dict(token_mixing="linear", token_mixing_heads=2),
    dict(token_mixing="linear", activation_fn="tanh", **SHARED),
    dict(token_mixing="conv", token_mixing_kernel_size=5, token_positional_embeddings=True),
    dict(token_mixing="conv", token_mixing_kernel_size=1, token_positional_embeddings=True),
    dict(token_mixing="none", token_positional_embeddings=True, **SHARED),
]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_same_hypotheses(plain, tmp_path, number):
    graph, native = both(exported(plain, tmp_path / "out", **CASES[number]))
    sources = [*sentences(graph), []]
    for beam, lenpen, limit in ((1, 0.6, 20), (4, 1.4, 39), (8, -1.0, 3), (44, 0.0, 1)):
        search = dict(beam=beam, nbest=beam, lenpen=lenpen, max_len_b=limit)
        # one of a thousand decisions may be a tie but for rounding
        assert same(graph, native, sources, **search) <= 1


@pytest.fixture(scope="module")
def int8(plain, tmp_path_factory):
    folder = tmp_path_factory.mktemp("int8") / "out"
    return exported(plain, folder, "int8", token_mixing="gated", **WIDE, **SHARED)


@pytest.mark.parametrize("kernel", ["plain", "avx2", "avx512", "amx", "neon"])
def test_kernels(plain, int8, tmp_path, monkeypatch, kernel):
    """Every kernel of this CPU; one row has the graph's integers and differs by rounding alone."""
    monkeypatch.setenv("RESMLP_MT_KERNEL", kernel)
    try:
        graph, native = both(int8)
    except TranslationError as error:
        assert f"no kernel '{kernel}'" in str(error) and kernel != "plain"
        pytest.skip(str(error))
    alone = dict(beam=1, max_tokens=1)
    assert same(graph, native, sentences(graph), 0.05, **alone) <= 1
    assert same(graph, native, sentences(graph), 0.3, beam=4) <= 3
    for precision in ("float32", "float16"):
        folder = exported(plain, tmp_path / precision, precision, token_mixing="conv")
        assert same(*both(folder), sentences(graph), beam=4, nbest=4) <= 1


def test_any_batch_and_threads(int8):
    """Rows never mix: a sentence is translated in the same way in any company."""
    sources = [*sentences(ExportedModel(int8)), []] * 3
    alone = ExportedModel(int8, 1, native=True).search(sources, beam=4, nbest=4, max_tokens=1)
    for threads in (1, 2, 5):
        model = ExportedModel(int8, threads, native=True)
        assert model.search(sources, beam=4, nbest=4) == alone


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_scores_that_are_not_finite(plain, tmp_path, precision):
    model, _ = random_model(plain.options.data, token_mixing="gated")
    model.decoder.layers[0].feed_forward.fc1.bias.data[3] = float("nan")
    (tmp_path / "out").mkdir()
    write_model(with_model(plain, model, beam=4), model, tmp_path / "out", precision)
    native = ExportedModel(tmp_path / "out", 1, native=True)
    assert native.search(sentences(native)) == [[]] * len(sentences(native))


def test_the_program(plain, int8, tmp_path):
    (tmp_path / "in").write_text("\n".join(LINES) + "\n\n")
    words = [int8 / "runtime.py", "--native", "--threads", "1", "--input", tmp_path / "in"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, *words], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    expected = ExportedModel(int8, 1, native=True).translate([*LINES, ""])
    assert done.stdout.decode() == "".join(f"{line}\n" for line in expected)
    words = ["translate", "--path", int8, "--input", tmp_path / "in", "--output", tmp_path / "out"]
    assert main([*map(str, words), "--native", "--threads", "1"]) == 0
    assert (tmp_path / "out").read_bytes() == done.stdout
    checkpoint = plain.options.paths[0]
    assert main(["translate", "--path", str(checkpoint), "--native"]) == 1


def refused(folder, message):
    with pytest.raises(TranslationError, match=message) as error:
        ExportedModel(folder, 1, native=True)
    assert "\n" not in str(error.value)


HOSTILE = {
    "an array less": (lambda arrays: arrays.pop("0.query.scale"), "0.query.scale does not fit"),
    "another shape": (lambda arrays: arrays["last.weight"][1].reverse(), "last.weight does not"),
    "negative": (lambda arrays: arrays.update({"0.own": ["float32", [-1], 0]}), "0.own does not"),
    "another type": (lambda arrays: arrays["1.own"].__setitem__(0, "object"), "damaged"),
    "past the end": (lambda arrays: arrays["1.own"].__setitem__(2, 1 << 40), "damaged"),
    "an unknown array": (lambda arrays: arrays.update(x=arrays["0.own"]), "does not know x"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_folders(int8, tmp_path, what):
    change, message = HOSTILE[what]
    folder = shutil.copytree(int8, tmp_path / "bad")
    config = json.loads((folder / "config.json").read_text())
    change(config["native"]["arrays"])
    (folder / "config.json").write_text(json.dumps(config))
    refused(folder, message)


def test_what_the_native_step_is_not_for(plain, int8, tmp_path, monkeypatch):
    folder = shutil.copytree(int8, tmp_path / "old")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "native": None}))
    refused(folder, "the folder is older: export the model again")
    with pytest.raises(TranslationError, match="no attention weights"):
        ExportedModel(int8, 1, native=True).search([["x"]], return_attention=True)
    monkeypatch.setitem(sys.modules, "resmlp_mt_native", None)
    refused(int8, "install the wheel resmlp-mt-native")


def test_hostile_arrays_do_not_touch_other_memory(plain, tmp_path):
    """What folders may give the native step, one change at a time, under AddressSanitizer."""
    compiler = next(filter(None, map(shutil.which, ("g++", "c++"))))
    package = shutil.copytree(NATIVE / "resmlp_mt_native", tmp_path / "resmlp_mt_native")
    words = ["-std=gnu++17", "-O1", "-g", "-shared", "-fPIC", "-pthread", "-fsanitize=address"]
    made = [NATIVE / "step.cpp", "-o", package / "libresmlp_mt_step.so"]
    subprocess.run([compiler, *words, *made], check=True)
    asan = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True)
    folders = [
        exported(plain, tmp_path / f"{number}", precision, **CASES[number])
        for number, precision in ((0, "int8"), (3, "float32"), (5, "int8"))
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
        "LD_PRELOAD": asan.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "OMP_NUM_THREADS": "1",
    }
    program = [sys.executable, NATIVE.parent / "tests/support/hostile_native.py", *folders]
    done = subprocess.run(program, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-4000:]
    refused, translated = map(int, re.findall(r"\d+", done.stdout))
    assert refused > 1000 and translated > 100
