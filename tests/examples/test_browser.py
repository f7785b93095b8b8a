"""The page of examples/browser. What needs node, zig or Chromium is skipped where they are not."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import hostile_lines
import pytest
from exported_models import LINES, change_file, changed_config, changed_weights, saved_model
from sentencepiece import SentencePieceTrainer

from resmlp_mt.export.folder import export
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt.text import mark_unused, train_subwords
from resmlp_mt_runtime import Model, native
from resmlp_mt_runtime.capitals import in_capitals, small_letters, upper
from resmlp_mt_runtime.folder import CONFIG, FILES, SUBWORDS, WEIGHTS
from resmlp_mt_runtime.pieces import NFC, Subwords, one_line, without_bytes
from resmlp_mt_runtime.sentences import join, sentences, split

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "examples" / "browser"
need_node = pytest.mark.skipif(not shutil.which("node"), reason="node is not there")


def run(*words, status=0, **options):
    """Assert that a program ends with *status*; gives what it did."""
    options = {"capture_output": True, "encoding": "utf-8", **options}
    done = subprocess.run(list(map(str, words)), **options)
    assert done.returncode == status, done.stderr
    return done


def mixed_lines():
    """Hostile ones, and every character below U+3400 that this Python's Unicode has."""
    draw = random.Random(1)
    characters = [x for x in map(chr, range(0x3400)) if unicodedata.category(x) != "Cn"]
    runs = (characters[i : i + 20] for i in range(0, len(characters), 20))
    ends = "Mr.;z.B.;(Ja.);„Wie?“;Nr.;3;好。;3.5;etc.;St.;U.S.;al.[1];XI.;</b>;»;<br>;.¹;[a];SQL.;•"
    tags = ["; ", "&amp; ", " </b>", "<a x="]
    pieces = [*hostile_lines.PIECES, *tags, " . ", " ?", *re.split(";", ends)]
    mixtures = ("".join(draw.choices(pieces, k=12)) for _ in range(500))
    long = ("  ".join(draw.choices(LINES, k=9)) for _ in range(20))
    return ["ABº. x", *LINES, *hostile_lines.FIXED, *map("".join, runs), *mixtures, *long]


@need_node
# the last two spell in bytes what is not in the text; every third piece of the last is unused
@pytest.mark.parametrize("sizes, every", [((90,), 90), ((320, 0.9999), 320), ((320, 0.9999), 3)])
def test_text_as_in_the_runtime(sizes, every, tmp_path):
    """Pieces, sentences, parts; what is joined again, what bytes spell; capitals."""
    model, lines = train_subwords(LINES, tmp_path / "spm", *sizes), mixed_lines()
    numbers = range(every, len(Subwords(model).pieces), every)
    model.write_bytes(mark_unused(model.read_bytes(), numbers))
    spelled = ["▁a <0xC3> <0xA9> ▁<0x41>", "<0x0A> <0xC3> x <0xEF> <0xBF> <0xBD> <0xF0> <0x9F> b"]
    languages = ["en", "tr", "ell", "nld", "ka", "de_DE", "x"]
    people = ["Καλημέρα ή όχι; το ρολόι, άυλος.", "iyi bir ılık gün. «Neden?» 3. (yok)", "ძალიან"]
    people += ["ijs in het IJsland", "weiß, 'dit' (i'm so)  x\u00a0y! é… ok"]
    cased = [upper(line, language) for line in [*LINES, *people] for language in languages]
    cased += [*people, *hostile_lines.FIXED]
    given = {"model": str(model), "lines": lines, "languages": languages, "cased": cased}
    given["spelled"] = [one.split(" ") for one in spelled]
    done = run("node", HERE / "browser_text.mjs", input=json.dumps(given))
    encode, found = Subwords(model, NFC).encode, json.loads(done.stdout)
    for line, of_page in zip(lines, found["found"], strict=True):
        expected = [encode(line), list(map(list, sentences(line))), split(line, encode, 90)[0]]
        assert of_page == expected, ascii(line)
    assert found["joined"] == [join(text for text, _ in sentences(line)) for line in lines]
    texts = [without_bytes(pieces).replace(" ", "").replace("▁", " ") for pieces in spelled]
    assert found["decoded"] == list(map(one_line, texts))
    by_language = iter(found["capitals"])
    for language in languages:
        names = {"languages": (language, language), "rank": lambda piece: ord(piece[-1])}
        engine = SimpleNamespace(pieces=encode, **names)
        for line in cased:
            expected = [in_capitals(line), small_letters(line, engine)]
            expected.append(upper(line.lower(), language))
            assert next(by_language) == expected, (language, ascii(line))


def other_model(folder, lines=LINES, **options):
    """SentencePiece's, as others train it."""
    model = folder / "other.model"
    options = {"vocab_size": 60, "model_type": "bpe", "minloglevel": 2, **options}
    with model.open("wb") as out:
        SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, **options)
    return model.read_bytes()


@need_node
def test_text_that_looks_like_a_symbol_is_none(tmp_path):
    """Characters that a model does not know are joined, and may spell one of its symbols."""
    options = {"vocab_size": 20, "hard_vocab_limit": False}
    other_model(tmp_path, ["слово и дело"], normalization_rule_name="identity", **options)
    model = tmp_path / "other.model"
    given = {"model": str(model), "lines": ["слово<s>дело"], "spelled": []}
    found = json.loads(run("node", HERE / "browser_text.mjs", input=json.dumps(given)).stdout)
    expected = Subwords(model, NFC).encode("слово<s>дело")
    assert found["found"][0][0] == expected and "<s>" not in expected


@need_node
@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda folder, data: data[:-99], "is cut off"),
        (lambda folder, data: b"\0" * 98, "is not a SentencePiece model"),
        (lambda folder, data: other_model(folder), "changes text"),  # by NFKC, its default
        (lambda folder, data: other_model(folder, model_type="unigram"), "is not BPE"),
    ],
)
def test_subwords_that_the_page_cannot_read(damage, said, tmp_path):
    model = train_subwords(LINES, tmp_path / "spm", 90)
    model.write_bytes(damage(tmp_path, model.read_bytes()))
    given = {"model": str(model), "lines": ["a"], "spelled": []}
    done = run("node", HERE / "browser_text.mjs", input=json.dumps(given), status=1)
    assert f"Error: spm.model {said}" in done.stderr


@pytest.fixture(scope="module")
def page(exported, tmp_path_factory):
    pytest.importorskip("ziglang", reason="needs pip install -r scripts/zig.txt")
    folder = tmp_path_factory.mktemp("page") / "dist"
    run(sys.executable, PAGE / "build.py", exported, folder)
    return folder


def test_the_build_publishes_nothing_but_the_model(exported, page, tmp_path):
    """Whatever else is in the folder, and wherever links lead; what is there stays."""
    published = {path.name for path in (page / "model").iterdir()}
    assert published == {CONFIG, *FILES, "README.md"}
    secret, model = tmp_path / "secret", tmp_path / "model"
    shutil.copytree(exported, model)
    (model / "README.md").rename(secret)
    (model / "README.md").symlink_to(secret)
    before = sorted(page.rglob("*"))
    for *given, said in (
        (model, tmp_path / "dist", "README.md is not a file: give a folder of resmlp-mt export"),
        (exported, page, "dist is there: remove it, or give another folder"),
    ):
        refused = run(sys.executable, PAGE / "build.py", *given, status=1)
        assert re.fullmatch(f"build: error: .*{said}\n", refused.stderr)
        assert not (tmp_path / "dist").exists() and sorted(page.rglob("*")) == before


BIAS = "decoder.output.bias"
DAMAGE = {
    "format": (CONFIG, changed_config(format=4), r"is of format 4, but this page reads format 5"),
    "no JSON": (CONFIG, lambda data: data[1:], r"config\.json is not JSON"),
    "no files": (CONFIG, changed_config(files={}), r"does not list weights\.safetensors"),
    "rule": (CONFIG, changed_config(rule=None), r'has no rule "nfc" of text'),
    "heads": (CONFIG, changed_config(heads=0), r"'heads' is missing or wrong"),
    "activation": (CONFIG, changed_config(activation="gelv"), r"'activation' is missing or wrong"),
    "normalization": (CONFIG, changed_config(normalization=None), r"'normalization' is missing"),
    "languages": (CONFIG, changed_config(languages=None), r"'languages' is missing or wrong"),
    "search": (CONFIG, changed_config(search={"beam": 4, "max_len_b": 9}), r"'search' is missing"),
    "layers": (CONFIG, changed_config(layers=[2, 3]), r"has no decoder\.2"),
    "mixing": (CONFIG, changed_config(mixing="toeplitz"), r"encoder\.0\.mixing\.weights is F32 "),
    "missing": (WEIGHTS, changed_weights(lambda a: a.pop(BIAS)), f"has no {BIAS}"),
    "more": (WEIGHTS, changed_weights(lambda a: a.update(x=a[BIAS])), "unknown array x"),
    "type": (WEIGHTS, changed_weights(lambda a: a[BIAS].update(dtype="I8")), r"is I8 \d+, not F32"),
    "short": (WEIGHTS, lambda data: data[:-4], r"weights\.safetensors: "),
    "tokens": ("source.txt", lambda data: data[:-9], r"do not fit config\.json"),
}


@need_node
def test_folders(exported, page, tmp_path):
    """The translations of the runtime; one line on a folder that is damaged."""
    folders = [tmp_path / name for name in DAMAGE]
    for folder, (name, change, _) in zip(folders, DAMAGE.values()):
        shutil.copytree(exported, folder)
        change_file(folder, name, change)
    flipped, other = tmp_path / "flipped", tmp_path / "other"
    shutil.copytree(exported, flipped)
    (flipped / SUBWORDS).write_bytes(b"x" + (flipped / SUBWORDS).read_bytes()[1:])
    given = [exported, *folders, flipped, other]
    done = run("node", HERE / "browser_folders.mjs", page, *given, input="a red dog\n\n")
    (text, blank), *refusals = json.loads(done.stdout)
    assert text and blank == ""
    patterns = [pattern for _, _, pattern in DAMAGE.values()]
    patterns += [r"spm\.model is not the file that config\.json lists", r"not on the server"]
    for refusal, pattern in zip(refusals, patterns, strict=True):
        assert isinstance(refusal, str) and re.search(pattern, refusal), (refusal, pattern)
        assert "\n" not in refusal


@need_node
@pytest.mark.skipif(native.load_library() is None, reason="the library is not built")
@pytest.mark.parametrize("precision, mixing", [("int8", "gated"), ("float16", "linear")])
def test_same_translations(precision, mixing, page, tmp_path, monkeypatch):
    """Those of the runtime's portable kernel, whatever the line."""
    monkeypatch.setenv("RESMLP_MT_KERNEL", "plain")
    normalization = "layernorm" if mixing == "gated" else "affine"
    translator = Translator(saved_model(tmp_path, token_mixing=mixing, normalization=normalization))
    export(translator, tmp_path / "out", precision, [LINES])
    words = " ".join(LINES).split()
    lines = [*LINES, *(" ".join(words[i:] + words[:i]) for i in range(9)), "東 A A C café 1²"]
    text = "".join(f"{line}\n" for line in lines)
    done = run("node", HERE / "browser_folders.mjs", page, tmp_path / "out", input=text)
    model = Model(tmp_path / "out", "native")
    parts = [split(line, model.pieces, model.limit)[0] for line in lines]
    found = {i: best for batch in model.translations(sum(parts, [])) for i, best in batch.items()}
    texts = iter(found[i][0].text for i in range(len(found)))
    assert json.loads(done.stdout) == [[join(next(texts) for _ in of) for of in parts]]


@need_node
@pytest.mark.skipif(
    not (shutil.which("chromium") and (PAGE / "node_modules" / "playwright-core").is_dir()),
    reason="needs chromium, and npm ci in examples/browser",
)
def test_the_page_in_a_browser(exported, page, tmp_path):
    texts = tmp_path / "lines", tmp_path / "translations"
    lines = [*LINES, LINES[0].upper()]
    texts[0].write_text("".join(f"{line}\n" for line in lines))
    words = ["translate", "--path", exported, "--input", texts[0], "--output", texts[1]]
    environment = {**os.environ, "RESMLP_MT_KERNEL": "plain", "CHROMIUM": shutil.which("chromium")}
    run(sys.executable, "-m", "resmlp_mt", *words, env=environment)
    done = run("node", PAGE / "check.mjs", page, *texts, env=environment)
    assert f"{len(lines)} of {len(lines)} translations" in done.stdout
