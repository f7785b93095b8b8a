# ruff: noqa: E402
"""The page of examples/browser. What needs node or Chromium is skipped where they are not there."""

import hashlib
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import hostile_lines
import pytest
import sentencepiece
from exported_models import LINES, saved_model

pytest.skip("the page reads exports of format 3", allow_module_level=True)

from resmlp_mt.export.folder import export, substitutions
from resmlp_mt.export.runtime import FILES
from resmlp_mt.pipeline.translate.translator import Translator
from resmlp_mt.text.subwords import train_subwords
from resmlp_mt_runtime.pieces import one_line, plain_pieces

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "examples" / "browser"
CHROMIUM = shutil.which("chromium")
need_node = pytest.mark.skipif(not shutil.which("node"), reason="node is not there")


def node(*words, **options):
    command = ["node", *map(str, words)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", **options)


@need_node
def test_what_the_page_computes():
    """Beam search, the memory, and the checks of a folder."""
    done = node("--test", HERE / "browser.test.mjs")
    assert done.returncode == 0, done.stdout


def bpe_model(folder):
    return train_subwords(LINES, folder / "bpe", 90)


def byte_model(folder):
    """It spells characters in bytes that are not in the text."""
    return train_subwords(LINES, folder / "bytes", 320, 0.9999)


def mixed_lines():
    """Hostile ones, and every character of the first planes that some rule may change."""
    draw = random.Random(1)
    characters = [chr(number) for number in range(0x3400) if not 0xD800 <= number < 0xE000]
    runs = (characters[i : i + 20] for i in range(0, len(characters), 20))
    mixtures = ("".join(draw.choices(hostile_lines.PIECES, k=12)) for _ in range(500))
    return [*LINES, *hostile_lines.FIXED, *map("".join, runs), *mixtures]


@need_node
@pytest.mark.parametrize("make", [bpe_model, byte_model])
def test_subwords_are_those_of_sentencepiece(make, tmp_path):
    model = make(tmp_path)
    lines = mixed_lines()
    pairs = substitutions("de")
    given = {"model": str(model), "normalisation": pairs, "lines": lines}
    done = node(HERE / "browser_subwords.mjs", input=json.dumps(given))
    assert done.returncode == 0, done.stderr
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    for line, found in zip(lines, json.loads(done.stdout), strict=True):
        normal = line
        for pattern, replacement in pairs:
            normal = re.sub(pattern, replacement, normal)
        pieces = plain_pieces(processor.encode(one_line(normal), out_type=str), processor)
        assert found == " ".join(pieces).split(), ascii(line)


@need_node
@pytest.mark.parametrize("damage", [lambda data: data[:-99], lambda _: b"\0" * 99])
def test_damaged_subwords(damage, tmp_path):
    model = bpe_model(tmp_path)
    model.write_bytes(damage(model.read_bytes()))
    given = {"model": str(model), "normalisation": [], "lines": ["a"]}
    done = node(HERE / "browser_subwords.mjs", input=json.dumps(given))
    assert done.returncode == 1 and re.search(r"Error: spm\.model is ", done.stderr)


@need_node
def test_the_build_publishes_nothing_but_the_model(tmp_path):
    """Whatever config.json lists, and wherever links lead."""
    page, model, dist = (tmp_path / name for name in ("browser", "model", "dist"))
    shutil.copytree(PAGE, page, ignore=shutil.ignore_patterns("node_modules", "dist"))
    runtime = page / "node_modules" / "onnxruntime-web" / "dist"
    runtime.mkdir(parents=True)
    for name in ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm"):
        (runtime / name).write_bytes(b"")
    secret = tmp_path / ".netrc"
    secret.write_text("secret")
    model.mkdir()
    for name in (*FILES, "README.md"):
        (model / name).write_text(name)
    listed = {name: {"sha256": hashlib.sha256(name.encode()).hexdigest()} for name in FILES}
    (model / "config.json").write_text(json.dumps({"files": {**listed, "../.netrc": {}}}))
    assert node(page / "build.mjs", model, dist).returncode == 0
    published = {path.name for path in (dist / "model").iterdir()}
    assert published == {*FILES, "README.md", "config.json"}
    assert not list(dist.rglob(".netrc"))
    for name in ("README.md", "spm.model"):  # which is read first
        (model / name).unlink()
        (model / name).symlink_to(secret)
        done = node(page / "build.mjs", model, dist)
        assert done.returncode == 1 and done.stderr.count("\n") == 1 and name in done.stderr
        assert "secret" not in "".join(p.read_text() for p in (dist / "model").iterdir())


@pytest.mark.skipif(
    not (CHROMIUM and (PAGE / "node_modules" / "playwright-core").is_dir()),
    reason="needs chromium, and npm ci in examples/browser",
)
def test_the_page(tmp_path):
    """The check of the page itself, with a small model, fails where a translation differs."""
    options = saved_model(tmp_path)
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{line}\n" for line in LINES))
    export(Translator(options), tmp_path / "out", "float32")
    given = ["--model", tmp_path / "out", "--input", lines, "--python", sys.executable]
    done = node(PAGE / "check.mjs", *given)
    assert done.returncode == 0, done.stderr
    assert f"{len(LINES)} of {len(LINES)} translations" in done.stdout
