"""The searches of the engines and their scores of given translations, beside a search that is
plain."""

import math

import numpy as np
import pytest
import torch
from exported_models import ENGINES, SHARED, random_model, saved_model, with_model

from resmlp_mt.export.folder import write_model
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt_runtime import UserError, native
from resmlp_mt_runtime.folder import Export, read_export
from resmlp_mt_runtime.numpy_engine import NumpyEngine

EOS, TOKENS = 2, 96
SOURCES = [[7, 9, 8, 4, 11, 2], [5, 2], [31, 6, 4, 2], [*range(4, 30), 2]]
MODELS = {
    "gated": dict(token_mixing="gated", token_mixing_heads=4, **SHARED),
    "linear": dict(token_mixing="linear"),
    "toeplitz": dict(token_mixing="toeplitz", token_positional_embeddings=True),
}
# tokens of bytes by the source, which has some of them, and by the target
SPELLING = [np.full(256, -1), np.full(256, -1)]
SPELLING[0][60:140], SPELLING[1][60:120] = range(80), np.random.default_rng(1).permutation(60) + 20


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    return Translator(saved_model(tmp_path_factory.mktemp("engine"), token_mixing="gated"))


@pytest.fixture(scope="module", params=MODELS)
def exported(request, translator, tmp_path_factory):
    """A model in PyTorch, and its export."""
    model, _ = random_model(translator.options.data, **MODELS[request.param])
    folder = tmp_path_factory.mktemp("engine")
    write_model(with_model(translator, model), model, folder, "float32")
    model, _ = random_model(translator.options.data, **MODELS[request.param])  # not folded
    return model, read_export(folder)


@pytest.fixture(params=ENGINES)
def both(request, exported):
    """A model in PyTorch, and a function that makes an engine, perhaps with a spelling of bytes."""
    model, export = exported

    def engine(spelling=((), ()), threads=2):
        tokens = [[f"t{i}" for i in range(TOKENS)] for _ in spelling]
        for side, of_bytes in zip(tokens, spelling):
            for byte, token in enumerate(of_bytes):
                if token >= 0:
                    side[token] = f"<0x{byte:02X}>"
        made = Export(export.config, export.arrays, tokens, b"")
        if request.param == "numpy":
            return NumpyEngine(made)
        return native.NativeEngine(native.load_library(), made, threads)

    return model, engine


@torch.no_grad()
def log_probabilities(model, source, targets):
    """T x V for each of the targets, which are of one length."""
    tokens = torch.tensor([source] * len(targets))
    outside = model.encoder(tokens, torch.tensor([len(source)] * len(targets)))
    previous = torch.tensor([[EOS, *target] for target in targets])
    return model.decoder(previous, encoder_out=outside)[0].double().log_softmax(-1).numpy()


def plain_search(model, source, beam, lenpen, limit, prefix=(), ngram=0, spelling=None):
    """Beam search one hypothesis at a time: score and tokens, the best first."""
    active, finished = [(0.0, [])], []
    banned = set()
    if spelling:
        banned = {t for s, t in zip(*spelling) if t >= 0 and s not in source}
    while active:
        step = len(active[0][1])
        candidates = []
        next_ones = log_probabilities(model, source, [tokens for _, tokens in active])[:, -1]
        for (total, past), scores in zip(active, next_ones):
            for token in range(TOKENS):
                grams = [tuple(past[i : i + ngram]) for i in range(step - ngram + 1)]
                allowed = token not in banned and token != 1 and (step > 0 or token != EOS)
                if ngram and (*past[step - ngram + 1 :], token) in grams:
                    allowed = False
                if step < len(prefix):
                    allowed = token == prefix[step]
                if token == EOS if step == limit else allowed:
                    candidates.append((total + scores[token], [*past, token]))
        candidates.sort(key=lambda one: -one[0])
        for total, tokens in candidates[:beam]:
            if tokens[-1] == EOS and len(finished) < beam:
                finished.append((total / (step + 1) ** lenpen, tokens[:-1]))
        continuing = [one for one in candidates[: 2 * beam] if one[1][-1] != EOS]
        active = continuing[:beam] if len(finished) < beam and step < limit else []
    return sorted(finished, key=lambda one: -one[0])


PREFIXES = [[20, 21, 60], [], [50], [4, 4, 4, 4, 4, 4, 4, 4]]
SIZES = [(1, 0.6, 9), (4, 1.4, 12), (8, -1.0, 8)]  # beam, lenpen, limit
CASES = [
    dict(prefixes=PREFIXES),
    dict(no_repeat_ngram=1),
    dict(spelling=SPELLING),
    dict(no_repeat_ngram=2),
    dict(no_repeat_ngram=3, prefixes=PREFIXES),
    dict(spelling=SPELLING, no_repeat_ngram=2, prefixes=PREFIXES),
]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[" ".join(case) for case in CASES])
def test_search(both, number):
    case, (beam, lenpen, limit) = CASES[number], SIZES[number % len(SIZES)]
    model, make_engine = both
    asked = dict(case)
    spelling = asked.pop("spelling", None)
    engine = make_engine(*[spelling] if spelling else [])
    prefixes, ngram = asked.get("prefixes", [[]] * len(SOURCES)), asked.get("no_repeat_ngram", 0)
    found = engine.search(SOURCES, beam, lenpen, limit, prefixes, ngram)
    for source, prefix, hypotheses in zip(SOURCES, prefixes, found, strict=True):
        expected = plain_search(model, source, beam, lenpen, limit, prefix, ngram, spelling)
        assert len(hypotheses) == len(expected) > 0
        for (score, tokens), (right, other) in zip(hypotheses, expected):
            assert math.isclose(score, right, rel_tol=1e-5)
            assert tokens == other


def test_scores_of_given_translations(both):
    model, make_engine = both
    engine = make_engine(SPELLING)  # what is given is never banned
    targets = [[24, 24, 9, 24, 9, 24, 9], [], [5], [3, 0, 92, 77]]
    for source, target, scores in zip(SOURCES, targets, engine.score(SOURCES, targets)):
        [right] = log_probabilities(model, source, [target])
        right = right[np.arange(len(target) + 1), [*target, EOS]]
        assert len(scores) == len(right) and np.abs(scores - right).max() < 1e-4
    found = [hypotheses[0] for hypotheses in engine.search(SOURCES, 2, 0.7, 9, PREFIXES, 0)]
    scored = engine.score(SOURCES, [tokens for _, tokens in found])
    for (score, _), scores in zip(found, scored, strict=True):
        assert math.isclose(score, sum(scores) / len(scores) ** 0.7, rel_tol=1e-5)


def test_a_search_in_which_all_is_banned_ends(both):
    """Even n-grams of one token, of which a long translation has none left."""
    _, make_engine = both
    [hypotheses] = make_engine().search([SOURCES[0]], 40, 0.0, 39, [[]], 1)
    assert hypotheses and all(len(set(tokens)) == len(tokens) for _, tokens in hypotheses)
    others = [token for token in range(TOKENS) if token not in (1, EOS)]
    spelling = [[-1] * 256, [*others, *[-1] * (256 - len(others))]]
    assert make_engine(spelling).search([SOURCES[0]], 2, 0.0, 9, [[]], 0) == [[]]


@pytest.mark.skipif(native.load_library() is None, reason="the library is not built")
def test_a_library_of_another_version(monkeypatch):
    """It is refused when it is loaded: it would read elsewhere."""
    monkeypatch.setattr(native, "Request", native.Array)
    with pytest.raises(UserError, match="not the library of this version"):
        native.load_library()
