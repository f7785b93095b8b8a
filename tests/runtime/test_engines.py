"""Both engines find what PyTorch finds, whatever the model is made of. The exponential and GELU in
C++ are as exact as the polynomials fitted to them."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from collections import ChainMap
from functools import partial
from math import erfc, sqrt
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from exported_models import BYTES, SHARED, need_library, random_model, sentences, with_model
from fit_polynomials import fits

from resmlp_mt.export.folder import write_model
from resmlp_mt_runtime import Model, UserError, native, numpy_engine
from resmlp_mt_runtime.folder import EOS, PAD, read_export
from resmlp_mt_runtime.numpy_engine import NumpyEngine
from resmlp_mt_runtime.pieces import one_line

ENGINE = Path(__file__).resolve().parents[2] / "runtime/engine/engine.cpp"
engines = pytest.mark.parametrize("engine", ["numpy", pytest.param("native", marks=need_library)])
# heads of 10 channels, and more than 32 of them in all
WIDE = {"encoder_embed_dim": 40, "decoder_embed_dim": 40}
ODD = {"encoder_embed_dim": 15, "decoder_embed_dim": 15, "decoder_attention_heads": 3}
NORMAL = {"normalization": "layernorm"}
POSITIONS = {"token_positional_embeddings": True}
LEARNED = {**POSITIONS, "decoder_learned_pos": True, "encoder_learned_pos": True}
LEARNED |= {"encoder_embed_dim": 12}
MODELS = {
    "gated, wide": dict(token_mixing="gated", token_mixing_heads=4, std=0.15, **WIDE),
    "gated, tied": dict(token_mixing="gated", activation_fn="relu", **SHARED, **NORMAL),
    "toeplitz": dict(token_mixing="toeplitz", no_decoder_final_norm=True),
    "linear, odd sizes": dict(token_mixing="linear", token_mixing_heads=3, **ODD, **NORMAL),
    "linear, tied, no bias": dict(token_mixing="linear", no_token_mixing_bias=True, **SHARED),
    "positions": dict(token_mixing="toeplitz", **POSITIONS, **SHARED, **NORMAL),
    "learned positions": dict(token_mixing="gated", no_token_mixing_bias=True, **LEARNED),
}
SEARCHES = (
    dict(beam=1, lenpen=0.6, max_len_b=20),
    dict(beam=4, lenpen=1.4, max_len_b=39),
    dict(beam=8, lenpen=-1.0, max_len_b=3),
)


def write(plain, model, out, precision="float32"):
    out.mkdir(exist_ok=True)
    write_model(with_model(plain, model), model, out, precision)
    return out


def written(plain, out, precision="float32", **options):
    """A random model, and the folder of its export."""
    model = random_model(plain.options.data, **options)
    return model, write(plain, model, out, precision)


def found_by(engine, sources, **options):
    """The n best of each source, by a Translator or a Model; none of those without scores."""
    found = ChainMap(*engine.translations(sources, **options))
    return [found.get(i, []) for i in range(len(sources))]


def apart(ours, theirs):
    """How many sentences have other hypotheses, and the largest gap of scores in the others."""
    other, gaps = 0, [0.0]
    for some, others in zip(ours, theirs, strict=True):
        assert len(some) == len(others)
        if [a.text for a in some] == [one_line(b.text) for b in others]:
            gaps += [abs(a.score - b.score) / max(1, abs(b.score)) for a, b in zip(some, others)]
        else:
            other += 1
    return other, np.max(gaps)


@engines
@pytest.mark.parametrize("name", MODELS)
def test_same_hypotheses_as_pytorch(plain, tmp_path, name, engine):
    model, folder = written(plain, tmp_path / "out", **MODELS[name])
    sources, others = sentences(plain), 0
    ours = Model(folder, engine, threads=1)
    for search in SEARCHES:
        theirs = found_by(with_model(plain, model, **search), sources)
        other, gap = apart(found_by(ours, sources, nbest=search["beam"], **search), theirs)
        others += other
        assert gap < 1e-4
    assert others <= 1  # of a thousand decisions one may be a tie but for rounding


def begun_with(translator, sources, prefixes):
    """What a Translator finds for each source that begins with its prefix."""
    task, found = translator.task, []
    for source, prefix in zip(sources, prefixes):
        tokens = torch.tensor([[task.target_dictionary.index(piece) for piece in prefix]])
        step = partial(task.inference_step, prefix_tokens=tokens.long())
        with mock.patch.object(task, "inference_step", step):
            found += translator.nbest([source])
    return found


@engines
@pytest.mark.parametrize("name", ["gated, wide", "linear, odd sizes"])
def test_prefixes_and_ngrams_as_in_pytorch(plain, tmp_path, name, engine):
    model, folder = written(plain, tmp_path / "out", **MODELS[name])
    sources, ours = sentences(plain), Model(folder, engine, threads=1)
    pieces = ours.pieces("a red dog and a cat in a park")
    prefixes = [pieces[i : 2 * i] + BYTES[1:2] * (i % 2) for i in range(len(sources))]
    others = 0
    for size, begin in ((0, prefixes), (3, prefixes), (2, prefixes), (2, ()), (1, ())):
        search = dict(beam=4, max_len_b=20, no_repeat_ngram_size=size)
        translator = with_model(plain, model, **search)
        theirs = begun_with(translator, sources, begin) if begin else found_by(translator, sources)
        found = found_by(ours, sources, prefixes=begin, nbest=4, **search)
        other, gap = apart(found, theirs)
        others += other
        assert others <= 1 and gap < 1e-4
        for prefix, nbest in zip(begin, found):
            assert all(one.pieces[: len(prefix)] == prefix for one in nbest)
        for one in (one for nbest in found for one in nbest):
            grams = list(zip(*(one.pieces[i:] for i in range(size))))
            assert begin or not size or len(grams) == len(set(grams))


@engines
def test_a_search_in_which_all_is_banned_ends(plain, tmp_path, engine):
    """N-grams of one token, of which a long translation has none left."""
    types = len(plain.task.target_dictionary)
    model = random_model(plain.options.data, **MODELS["toeplitz"], max_target_positions=types)
    bias = torch.zeros(types)
    bias[EOS] = -1e4  # an end is the last that is chosen
    model.decoder.output_projection.bias = torch.nn.Parameter(bias)
    export, library = read_export(write(plain, model, tmp_path / "out")), native.load_library()
    made = NumpyEngine(export) if engine == "numpy" else native.NativeEngine(library, export, 2)
    [hypotheses] = made.search([[7, 9, 2]], 40, 0.0, types - 1, [[]], 1)
    every = [token for token in range(types) if token not in (PAD, EOS)]
    assert hypotheses and all(sorted(tokens) == every for _, tokens in hypotheses)


@need_library
def test_a_library_of_another_version(tmp_path, monkeypatch):
    """It is refused when it is loaded: it would read elsewhere. The system's reason is said."""
    (tmp_path / "libresmlp_mt_engine.so").write_bytes(b"")
    with pytest.raises(UserError, match=r"cannot be loaded, .* \(.*: file too short\)"):
        native.load_library(tmp_path)
    other = type("Other", (native.Request,), {"_fields_": [("new", ctypes.c_int32)]})
    monkeypatch.setattr(native, "Request", other)
    with pytest.raises(UserError, match=r"another version\'s \(other structures\)"):
        native.load_library()


@engines
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_scores_of_given_translations(plain, tmp_path, precision, engine):
    """A translation has the score with which it was found, and any other that of PyTorch."""
    given, folder = written(plain, tmp_path / "out", precision, **MODELS["linear, odd sizes"])
    model, sources = Model(folder, engine, threads=1), sentences(plain)
    dictionary, target = plain.task.target_dictionary, [BYTES[0], "nowhere", "▁the", "▁the"]
    encode = partial(dictionary.encode_line, add_if_not_exist=False)
    source, tokens = (encode(" ".join(some)).long()[None] for some in (sources[0], target))
    with torch.no_grad():
        logits = given(source, None, tokens.roll(1, 1))[0].log_softmax(-1)
    right = logits.gather(2, tokens[..., None]).flatten().tolist()
    (score,) = model.score_pieces(sources[:1], [target])
    assert precision == "int8" or score.log_probs == pytest.approx(right, abs=1e-4)
    found = [nbest[0] for nbest in found_by(model, sources, max_len_b=30, lenpen=0.7)]
    scores = model.score_pieces(sources, [one.pieces for one in found], lenpen=0.7)
    for one, again in zip(found, scores):
        assert again.score == pytest.approx(one.score, abs=1e-4 if precision == "float32" else 0.05)
        length = len(one.pieces) + 1
        assert len(again.log_probs) == length and all(score < 0 for score in again.log_probs)
        assert sum(again.log_probs) / length**0.7 == pytest.approx(again.score)


def log_probs(model, sources, targets) -> np.ndarray:
    return np.concatenate([one.log_probs for one in model.score_pieces(sources, targets)])


def assert_near(model, reference, sources, precision):
    """The inputs of a product in 8 bits: the last bit of a float may change one of 8."""
    targets = [nbest[0].pieces for nbest in found_by(model, sources, max_len_b=20)]
    ours, theirs = (log_probs(each, sources, targets) for each in (model, reference))
    gaps = np.abs(ours - theirs)
    assert np.median(gaps) < 0.02 and gaps.max() < (0.1 if precision == "int8" else 1e-4)
    return targets, ours


@engines
@pytest.mark.parametrize("precision, most", [("int8", 0.3), ("float16", 0.01)])
def test_smaller_weights(plain, tmp_path, monkeypatch, precision, most, engine):
    """Rounding to 8 or 11 bits: neither nothing nor another model; both engines round alike."""
    monkeypatch.setattr(numpy_engine, "EXACT", 10)  # of 16 channels or 24 hidden units
    _, whole = written(plain, tmp_path / "whole", **MODELS["toeplitz"])
    _, folder = written(plain, tmp_path / "out", precision, **MODELS["toeplitz"])
    sources, model = sentences(plain), Model(folder, engine, threads=1)
    targets, ours = assert_near(model, Model(folder, "numpy"), sources, precision)
    exact = log_probs(Model(whole, engine), sources, targets)
    assert 1e-6 < np.median(np.abs(ours - exact)) < most


@engines
def test_any_batch_and_threads(plain, tmp_path, engine):
    _, folder = written(plain, tmp_path / "out", **MODELS["gated, wide"])
    sources = [*sentences(plain), []] * 3
    search = dict(beam=4, nbest=4, max_len_b=20)
    alone = found_by(Model(folder, engine, 1), sources, max_tokens=1, **search)
    for threads in (1, 2, 5):
        found = found_by(Model(folder, engine, threads), sources, **search)
        assert [[one.pieces for one in nbest] for nbest in found] == [
            [one.pieces for one in nbest] for nbest in alone
        ]
        assert engine == "numpy" or found == alone


def test_numpy_takes_few_sentences_at_a_time(plain, tmp_path, monkeypatch):
    """As many as there is room for the scores of their next tokens."""
    _, folder = written(plain, tmp_path / "out", **MODELS["gated, wide"])
    model, sources, batches, step = Model(folder, "numpy"), sentences(plain), [], NumpyEngine.step

    def counted(engine, newest, state):
        batches.append(len(newest))
        return step(engine, newest, state)

    def results():
        prefixes = [source[-1:] for source in sources]
        found = found_by(model, sources, prefixes=prefixes, beam=2, max_len_b=9)
        best = [nbest[0].pieces for nbest in found]
        return best, [one.score for one in model.score_pieces(sources, best)]

    monkeypatch.setattr(NumpyEngine, "step", counted)
    best, scores = results()
    assert max(batches) == len(sources)
    batches.clear()
    monkeypatch.setattr(numpy_engine, "SCORES", 1)
    assert results() == (best, pytest.approx(scores, abs=1e-5)) and set(batches) == {1}


@engines
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_scores_that_are_not_finite(plain, tmp_path, precision, engine):
    """They cost the sentences that reach them, not the others; what is nearly 0 costs none."""
    model = random_model(plain.options.data, token_mixing="gated")
    first = model.decoder.layers[0].feed_forward.fc1
    first.weight.data.zero_()
    first.bias.data.fill_(-30)
    first.bias.data[0] = -12.9  # by GELU 0 and -3e-37, and 255 / 3e-37 overflows
    sources = sentences(plain)
    poisoned = plain.task.source_dictionary.index(sources[6][-1])
    model.encoder.embed_tokens.weight.data[poisoned] = 1e38  # times 4
    found = found_by(Model(write(plain, model, tmp_path, precision), engine, 1), sources)
    lost = [sources[6][-1] in source for source in sources]
    assert [not nbest for nbest in found] == lost and not all(lost)


@engines
def test_a_search_that_ends_in_an_overflow_finds_nothing(plain, tmp_path, engine):
    """Not even the hypotheses that were finished before."""
    model = random_model(plain.options.data, **MODELS["learned positions"])
    model.decoder.output_projection.weight.data[EOS] *= 2  # so that some end early
    sources, search, step = sentences(plain), dict(beam=8, nbest=8, max_len_b=12), 5
    nbests = found_by(Model(write(plain, model, tmp_path), engine, 1), sources, **search)
    lengths = [sorted(len(one.pieces) for one in nbest) for nbest in nbests]
    first = plain.task.target_dictionary.pad() + 1
    model.decoder.embed_positions.weight.data[first + step :] = 1e38
    found = found_by(Model(write(plain, model, tmp_path), engine, 1), sources, **search)
    assert [not nbest for nbest in found] == [each[-1] >= step for each in lengths]
    assert any(found) and any(each[0] < step <= each[-1] for each in lengths)


KERNELS = {"plain": " ", "avx2": " avx2 ", "avx512": " avx512_vnni ", "amx": " amx_int8 "}
KERNELS |= {"avxvnni": " avx_vnni ", "neon": " asimddp "}


@need_library
@pytest.mark.parametrize("kernel, feature", KERNELS.items())
def test_each_kernel_scores_as_numpy_does(plain, tmp_path, monkeypatch, kernel, feature):
    monkeypatch.setenv("RESMLP_MT_KERNEL", kernel)
    tried = {"gated, wide": "int8", "linear, odd sizes": "int8", "toeplitz": "float16"}
    for name, precision in tried.items():
        _, folder = written(plain, tmp_path / name, precision, **MODELS[name])
        try:
            model = Model(folder, "native", threads=1)
        except UserError as error:
            assert f"no kernel '{kernel}'" in str(error)
            cpu = Path("/proc/cpuinfo")  # a container may have no permission for AMX
            known = kernel != "amx" and cpu.exists()
            assert not known or feature not in cpu.read_text().replace("\n", " ")
            pytest.skip(str(error))
        assert_near(model, Model(folder, "numpy"), sentences(plain), precision)


def compiled(source: Path, library: Path, *words: str) -> str:
    """Build a library of the engine, not for the fastest code; gives the compiler's name."""
    compiler = next(filter(None, map(shutil.which, ("g++", "c++", "clang++"))), None)
    if not compiler:
        pytest.skip("there is no C++ compiler")
    words = ("-std=gnu++17", "-O1", "-w", "-shared", "-fPIC", "-pthread", *words)
    subprocess.run([compiler, *words, source, "-o", library], check=True)
    return compiler


def test_hostile_arrays_do_not_touch_other_memory(plain, tmp_path):
    """What folders may give the library, one change at a time, under AddressSanitizer."""
    library = tmp_path / "libresmlp_mt_engine.so"
    compiler = compiled(ENGINE, library, "-g", "-fsanitize=address")
    asan = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True)
    one_layer = {"encoder_layers": 1, "decoder_layers": 1}
    folders = [
        written(plain, tmp_path / name, precision, **MODELS[name], **one_layer)[1]
        for name, precision in (("gated, wide", "int8"), ("linear, odd sizes", "float32"))
    ]
    asan = {"LD_PRELOAD": asan.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0"}
    environment = {**os.environ, **asan, "OMP_NUM_THREADS": "1"}
    program = [sys.executable, Path(__file__).parents[1] / "support/hostile_native.py"]
    done = subprocess.run(
        [*program, library, *folders], capture_output=True, text=True, env=environment, timeout=900
    )
    assert done.returncode == 0, done.stderr[-4000:]
    refused, translated = map(int, re.findall(r"\d+", done.stdout))
    assert refused > 1000 and translated > 100


PROGRAM = """
#include "{engine}"
extern "C" void evaluate(const float* x, int size, float* exponential, float* gelu) {{
  typedef Step<4> Plain;
  for (int i = 0; i < size; i += 4) {{
    store(exponential + i, Plain::exponential(load<Plain::Floats>(x + i)));
    store(gelu + i, Plain::gelu(load<Plain::Floats>(x + i)));
  }}
}}
"""


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("polynomials")
    (folder / "functions.cpp").write_text(PROGRAM.format(engine=ENGINE))
    compiled(folder / "functions.cpp", folder / "functions.so")
    library = ctypes.CDLL(str(folder / "functions.so"))

    def evaluated(x):
        x = np.ascontiguousarray(x, np.float32)
        found = np.empty((2, len(x)), np.float32)
        addresses = [ctypes.c_void_p(array.ctypes.data) for array in (x, *found)]
        library.evaluate(addresses[0], len(x), *addresses[1:])
        return x.astype(np.float64), *found.astype(np.float64)

    return evaluated


def test_exponential(evaluate):
    x, found, _ = evaluate(np.linspace(-87, 88, 400_000))
    error = np.abs(found / np.exp(x) - 1)
    fitted = fits()["EXPONENTIAL"][1]
    # the fit's, and three roundings
    assert error.max() < fitted + 3 * 2**-24
    _, ends, _ = evaluate([-np.inf, -1000, 0, np.nan])
    assert 0 < ends[0] == ends[1] < 1e-37 and ends[2] == 1 and np.isnan(ends[3])


def test_gelu(evaluate):
    x, _, found = evaluate(np.linspace(-20, 20, 400_000))
    right = np.array([v / 2 * erfc(-v / sqrt(2)) for v in x])
    fitted = fits()["GELU_TAIL"][1]
    # the fit's, that of rounding the result, and that of its second term, which is at most 0.17
    assert (np.abs(found - right) < fitted + 2**-24 * np.abs(right) + 4e-8).all()
    x, _, found = evaluate(np.geomspace(7, 1e6, 4000))
    assert (found == x).all()
    x, _, found = evaluate(-np.geomspace(7, 1e6, 4000))
    assert (np.abs(found) < 1e-10).all()
    assert np.isnan(evaluate([np.nan] * 4)[2]).all()
