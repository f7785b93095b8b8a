"""The quickstart, the notebook, the study and the benchmark, each at a tiny size."""

import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import grammar
import pytest
import results
import study
from fairseq_programs import ROOT, SMALL, process
from prepare_text import write_pairs

from resmlp_mt.cli.terminal import run_main

QUICKSTART = ROOT / "examples" / "quickstart"
SENTENCES = {
    "Because this aunt found these doors, the young teacher slept.": (
        "Weil diese Tante diese Türen fand, schlief der junge Lehrer."
    ),
    "Every famous son brings a bed while this king calls a daughter.": (
        "Jeder berühmte Sohn bringt ein Bett mit, während dieser König eine Tochter anruft."
    ),
}


def test_the_quickstart(tmp_path):
    sizes = ("--sentences", 400, "--vocab-size", 500, "--max-update", 4)
    few = "import sys, run; run.HELD_OUT = 20; sys.exit(run.run_main(run.main))"
    done = process("-c", few, *sizes, "--out", tmp_path, path=f"{ROOT}:{QUICKSTART}")
    assert done.returncode == 0, done.stderr
    shown = ["Die Brücke wurde vor", "BLEU ", "(reference: ", "before_and_after.png"]
    places = [done.stdout.index(text) for text in shown]
    assert places == sorted(places)
    assert not re.search("DEBUG|INFO|Warning|fairseq-train", done.stdout + done.stderr)
    assert (tmp_path / "before_and_after.png").read_bytes().startswith(b"\x89PNG")


def test_the_notebook(monkeypatch, capsys):
    """Its cells run one after the other and print what it shows."""
    monkeypatch.chdir(ROOT / "examples")
    notebook = json.loads(Path("tour.ipynb").read_text(encoding="utf-8"))
    names: dict = {}
    for cell in [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]:
        exec(re.sub(r"(?m)^Show\(", "shown = Show(", "".join(cell["source"])), names)
        streams = [out["text"] for out in cell["outputs"] if out["output_type"] == "stream"]
        assert capsys.readouterr().out == "".join(sum(streams, []))
    assert re.match('<img alt="[^"]+" src="data:image/png;base64,', names["shown"]._repr_html_())


@pytest.fixture
def small_study(tmp_path, monkeypatch):
    """The study on 200 sentences, with layers of 16 channels and results of its own."""
    sizes = {"train": 200, "valid.a": 10, "test.a": 12, "test.b": 10}
    for split, pairs in grammar.generate(1, sizes).items():
        write_pairs(tmp_path, split, ("en", "fr"), pairs)
    recipe = (ROOT / "resmlp_mt/pipeline/train/recipes/mixed.toml").read_text(encoding="utf-8")
    recipe = re.sub(r"(embed-dim|ffn-embed-dim) = \d+", r"\1 = 16", recipe)
    recipe = re.sub(r"(-layers|updates) = \d+", r"\1 = 1", recipe)
    (tmp_path / "tiny.toml").write_text(recipe, encoding="utf-8")
    file = tmp_path / "results.jsonl"
    file.touch()
    monkeypatch.setattr(results, "FILE", file)
    values = {"RECIPE": tmp_path / "tiny.toml", "VOCABULARY": 120}
    values |= {"LENPEN": (1.0,), "COVERAGE": 1.0}
    for name, value in values.items():
        monkeypatch.setattr(study, name, value)

    def call(*words):
        given = ["--pair", "en-fr", "--out", tmp_path / "out"]
        monkeypatch.setattr("sys.argv", ["study.py", *map(str, [*words, *given])])
        return run_main(study.main)

    return call, tmp_path


@pytest.mark.soak
def test_the_study(small_study, monkeypatch, native_wheel):
    """Trained, scored against the other, published."""
    monkeypatch.setenv("PYTHONPATH", str(native_wheel))
    call, folder = small_study
    (folder / "train.origin").write_text("twice\n" * 50 + "half\n" * 150)
    assert call("corpus", "--from", folder, "--share", "twise=2") == 1
    assert call("corpus", "--from", folder, "--share", "twice=2", "half=0.5") == 0
    pairs = zip(*(side.read_text().splitlines() for side in sorted(folder.glob("train.??"))))
    text = folder / "out/en-fr/text"
    drawn = zip(*(side.read_text().splitlines() for side in sorted(text.glob("train.??"))))
    pairs, taken = list(pairs), json.loads((text / "origins.json").read_text())
    assert taken["twice"] == [100, 50] and 50 < taken["half"][0] < 100
    count = Counter(list(drawn)[: sum(times for times, _ in taken.values())])
    assert all(count[pair] >= 2 for pair in pairs[:50]) and count.keys() <= set(pairs)
    updates = ("--updates", "2")
    assert call("score", "gated", *updates) == 1  # nothing is trained yet
    assert call("card", "--model", folder / "model") == 1  # nor published
    assert call("trial", "gated", *updates, "--set", "dropout=0.2", "lr=0.01") == 0
    trial = results.load()["trial/en-fr/gated, dropout=0.2 lr=0.01/1/2"]["numbers"]
    settings = folder / "out/en-fr/gated, dropout=0.2 lr=0.01.1/2/train.json"
    assert json.loads(settings.read_text())["settings"]["--lr"] == ["0.01"]
    assert trial["valid_curve"][-1][0] == 2 and trial["valid_curve"][-1][1] > 1
    assert call("train", "transformer", "gated", *updates) == 0
    assert call("score", "transformer", "gated", *updates) == 0
    found = results.load()
    assert list(found)[1:] == ["en-fr/transformer/1/2", "en-fr/gated/1/2"]
    numbers = found["en-fr/gated/1/2"]["numbers"]
    assert set(numbers["scores"]) == {"a", "b"} and set(numbers["lenpens"]) == {"1.0"}
    assert set(numbers["against"]) == {"transformer"} and numbers["updates"] == 2
    assert call("publish", "gated", *updates, "--model", folder / "model") == 0
    published = results.load()["model/en-fr"]["numbers"]
    assert {"model.pt", "spm.model", "search.json", "text.json"} < set(published["files"])
    assert all(set(bleu) == {"a", "b"} for bleu in published["exports"].values())
    assert str(folder).encode() not in (folder / "model" / "model.pt").read_bytes()
    assert call("card", "--model", folder / "model") == 0
    (stored,) = (folder / "translations").glob("*gated*.gz")
    rows = [row.split("\t") for row in gzip.decompress(stored.read_bytes()).decode().splitlines()]
    assert Counter(test for test, _ in rows) == {"a": 12, "b": 10}


def test_what_the_study_counts():
    assert study.repeats("in a house in a house") and not study.repeats("in a house in a garden")
    assert study.signature(study.CHRF).startswith("nrefs:1|")


def test_the_lead(tmp_path, monkeypatch):
    """Where it is updates ** -0.5 bits, that is found and extended."""
    for system, more in (("transformer", 1), ("toeplitz", 0)):
        log = tmp_path / "en-de" / f"{system}, x.1" / "9000" / "train.log"
        log.parent.mkdir(parents=True)
        rows = [{"num_updates": n, "nll_loss": 3 + more * n**-0.5} for n in range(10, 9000, 10)]
        lines = (json.dumps({**row, "wpb": 9, "bsz": 1}) for row in rows)
        log.write_text("".join(f"| train_inner | {line}\n" for line in lines))
    found = {}
    monkeypatch.setattr(results, "append", lambda _, numbers, seed: found.update(numbers))
    args = SimpleNamespace(pair="en-de", out=tmp_path, label="x", seed=1, updates=9000)
    study.Study(args).lead(["transformer", "toeplitz"])
    assert found["exponent"] == -0.5 and max(map(abs, found["residuals"])) < 1e-4
    assert found["after ten times as many"] == pytest.approx(89900**-0.5, rel=1e-2)
    assert found["last by the first four"] == pytest.approx(found["points"][-1][3], rel=1e-2)


@pytest.mark.parametrize(
    "mode, rows",
    [
        ("decode --exported int8", ("transformer", "resmlp_mt_tiny .*, graph int8")),
        pytest.param("train", ("transformer",), marks=pytest.mark.soak),
    ],
)
def test_the_benchmark(mode, rows):
    words = (*mode.split(), "--quick", "--repeats", 1, "--arch", f"resmlp_mt_tiny {SMALL}")
    done = process("scripts/benchmark", *words)
    assert done.returncode == 0 and "resmlp_mt_tiny" in done.stdout, done.stderr
    assert all(re.search(rf"^{row} .*\d", done.stdout, re.M) for row in rows)


def test_a_result_is_appended(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FILE", tmp_path / "results.jsonl")
    monkeypatch.setattr("sys.argv", [f"{ROOT}/scripts/benchmark", "decode", "--beam", "4", "/a/b"])
    for speed in (1, 2):
        results.append("speed/x", {"speed": speed}, 7)
    found = results.load()["speed/x"]
    assert found["numbers"] == {"speed": 2} and found["seed"] == 7
    assert found["command"] == "python scripts/benchmark decode --beam 4 b"
    assert found["commit"] and found["machine"]


def test_sentences_of_the_quickstart():
    rng = random.Random(1)
    found = dict(grammar.sentence(rng) for _ in range(400))
    assert {en: found.get(en) for en in SENTENCES} == SENTENCES


def test_each_sentence_stands_once():
    corpus = grammar.generate(1, {"test": 500, "train": 3000})
    assert corpus == grammar.generate(1, {"test": 500, "train": 3000})
    pairs = corpus["test"] + corpus["train"]
    assert len({en for en, _ in pairs}) == len({de for _, de in pairs}) == len(pairs) == 3500
