"""The example of the larger corpus, on a hundred lines, and its result files."""

import gzip
import shlex
import shutil
from unittest import mock

import mixed
import pytest
import torch
from command import resmlp
from fairseq_programs import values
from road.pages import blocks

from resmlp_mt import ResMLPModel
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.decoding.length_penalty import chosen_lenpen
from resmlp_mt.files import read_json, write_json
from resmlp_mt.text.lines import sha256_of

RECIPE = """
max-update = 9
tokens = 64
vocab-size = 60
average-by = "update"
average-count = 2
beam = 2
lenpen = [0.6, 1.0]
[options.all]
encoder-layers = 1
decoder-layers = 1
encoder-embed-dim = 16
encoder-ffn-embed-dim = 16
decoder-attention-heads = 2
share-all-embeddings = true
max-source-positions = 64
max-target-positions = 64
criterion = "label_smoothed_cross_entropy"
optimizer = "adam"
lr = 0.001
lr-scheduler = "inverse_sqrt"
warmup-updates = 2
save-interval-updates = 2
no-epoch-checkpoints = true
log-format = "json"
log-interval = 1
num-workers = 0
[options.resmlp_mt]
"""


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The example at a tiny size, its programs called in this process."""
    (tmp_path / "recipe.toml").write_text(RECIPE)
    monkeypatch.setattr(mixed, "RECIPE", tmp_path / "recipe.toml")
    monkeypatch.setattr(mixed, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(mixed, "MODEL", tmp_path / "model")
    monkeypatch.setattr(mixed, "STAGE", 2)
    monkeypatch.setattr(mixed, "EVERYDAY", tmp_path / "everyday")
    for language in ("en", "de"):
        (tmp_path / f"everyday.{language}").write_text("a dog runs\n" * 4)

    def in_this_process(*words):
        words = [60 if word == 8000 else 64 if word == 1024 else word for word in words]
        status, _, err = resmlp(*words)
        assert status == 0, err

    monkeypatch.setattr(mixed, "resmlp_mt", in_this_process)

    def call(*words):
        monkeypatch.setattr("sys.argv", ["mixed", *map(str, words), "--out", str(tmp_path / "out")])
        return run_main(mixed.main)

    return call


@pytest.fixture
def corpus(hundred_lines, tmp_path):
    """In the layout of ``--from``."""
    folder = tmp_path / "given"
    folder.mkdir()
    names = {"train": "train", "val": "valid.one", "test_2016_flickr": "test.one"}
    for old, new in {**names, "test_2017_flickr": "valid.two"}.items():
        for language in ("en", "de"):
            name = f"{new}.{language}.gz"
            shutil.copy(hundred_lines / f"{old}.{language}.gz", folder / name)
    return folder


def trained_longer(command, data, out, checkpoints, *words):
    """As if two more updates had been made, in a minute."""
    assert (command, out) == ("train", "--out") and words[words.index("--max-update") + 1] == 4
    shutil.copy(checkpoints / "checkpoint_1_2.pt", checkpoints / "checkpoint_1_4.pt")
    cost = read_json(checkpoints / "cost.json")
    write_json(checkpoints / "cost.json", {**cost, "cpu_minutes": cost["cpu_minutes"] + 1})


def falls_to_0(tiny, endless, minutes, monkeypatch, capsys):
    """From the stage within the share of the budget, from the rate that was there."""
    words = ("gated-longer-decayed", "--cpu-minutes", 10 * minutes / 9)
    assert tiny("train", *words) == 1
    assert "2 updates before the learning rate falls are less than 18" in capsys.readouterr().err
    monkeypatch.setattr(mixed, "ENDLESS", 1)
    budget = 2 * minutes
    words = (*words[:2], budget)
    assert tiny("train", *words) == tiny("train", *words) == 0  # the second has nothing to do
    run = endless.with_name(f"gated-longer-decayed.1.{budget:g}")
    before = read_json(endless / "progress.json")[0]
    (stage,) = read_json(run / "progress.json")
    assert stage["updates"] == 4 and before["updates"] == 2
    cost = read_json(run / "checkpoints" / "cost.json")["cpu_minutes"]
    assert stage["cpu_minutes"] == before["cpu_minutes"] + cost
    rates = values((run / "checkpoints" / "train.log").read_text(), "lr")
    assert len(rates) == 2 and 0.001 > rates[0] > rates[1] == 0
    write_json(run / "progress.json", [{**stage, "cpu_minutes": budget}])  # on any machine
    assert tiny("score", *words) == 0
    result = read_json(mixed.RESULTS / f"gated-longer-decayed.1.{budget:g}.json")
    assert result["updates"] == 4 and result["train_options"]["--warmup-updates"] == ["2"]
    of_three = mixed.passes(run / "checkpoints" / "train.log", 3)
    assert result["passes"] == pytest.approx(of_three * 4 / 3, abs=0.002) and of_three > 0.1
    (endless / "checkpoints" / "checkpoint_1_2.pt").rename(endless / "kept")
    shutil.rmtree(run)
    assert tiny("train", *words) == 1 and not run.exists()
    (endless / "kept").rename(endless / "checkpoints" / "checkpoint_1_2.pt")


def test_from_a_folder_to_a_result(tiny, corpus, hundred_lines, tmp_path, monkeypatch, capsys):
    news = hundred_lines / "test_2017_mscoco"
    assert tiny("corpus", "--from", corpus, "--test", news) == 0
    assert tiny("corpus", "--from", corpus, "--test", news, tmp_path / "one.news") == 1
    assert "one.news: there is a test set one already" in capsys.readouterr().err
    text = tmp_path / "out" / "text"
    with gzip.open(corpus / "test.one.de.gz", "rt") as file:
        lines = file.read().splitlines()
    assert (text / "test.one.de").read_text().splitlines() == lines
    twos = [f"{a} {b}" for a, b in zip(lines[::2], lines[1::2])]
    assert (text / "pairs.one.de").read_text().splitlines() == twos
    assert len((text / "valid.en").read_text().splitlines()) == 12
    data, longer = ((tmp_path / "out" / name) for name in ("data", "longer"))
    lines, more = ((f / "text" / "train.en").read_text().splitlines() for f in (data, longer))
    assert more[: len(lines)] == lines and len(more) == len(lines) * 5 // 4
    assert (longer / "data-bin" / "spm.model").read_bytes() == (
        data / "data-bin" / "spm.model"
    ).read_bytes()
    trained_on = f"{lines[0].upper()} !"
    (tmp_path / "everyday.en").write_text("\n".join([trained_on, *["a dog runs"] * 3]) + "\n")
    assert tiny("train", "gated", "--cpu-minutes", 0.001) == 0
    run = tmp_path / "out" / "gated.1"
    (stage,) = read_json(run / "progress.json")
    minutes = stage["cpu_minutes"]
    assert stage["updates"] == 2 and minutes > 0
    with mock.patch.object(mixed, "resmlp_mt", trained_longer):
        assert tiny("train", "gated", "--cpu-minutes", minutes + 0.5) == 0
    first, second = read_json(run / "progress.json")
    assert first == stage and second == {"updates": 4, "cpu_minutes": minutes + 1}
    longer_run = run.with_name("gated-longer.1")
    shutil.copytree(run, longer_run)
    falls_to_0(tiny, longer_run, minutes + 0.5, monkeypatch, capsys)
    budget = second["cpu_minutes"] + 1
    shutil.copytree(run, run.with_name("conv.1"))
    assert tiny("score", "gated-longer", "conv", "gated", "--cpu-minutes", budget) == 0
    result = read_json(tmp_path / "results" / f"gated.1.{budget:g}.json")
    assert result["updates"] == 4 and result["arch"] == "resmlp_mt_gated_6"
    seen = {"one": 6, "test_2017_mscoco": 6, "everyday": 1}  # all of the same lines
    assert result["sources_in_training_text"] == seen
    assert set(result["references_repeat"]) == {"one", "test_2017_mscoco", "everyday"}
    assert set(result["scores"]) == {"valid", "one", "test_2017_mscoco", "everyday"}
    assert "version:" in result["scores"]["one"]["bleu_signature"]
    assert list(result["against"]) == ["gated-longer", "conv"]
    bleu = result["against"]["gated-longer"]["one"]["bleu"]
    assert bleu["system"] == bleu["baseline"]
    assert sum(bucket["sentences"] for bucket in result["by_length"]) == 6 + 6 + 4
    assert set(result["two_in_a_line"]) == {"one"}
    assert read_json(tmp_path / "results" / f"gated-longer.1.{budget:g}.json")["against"] == {}
    timed = ("--cpu-minutes", budget, "--threads", torch.get_num_threads(), "--repeats", 2)
    assert tiny("speed", "gated-longer", "gated", *timed) == 0
    speed = read_json(tmp_path / "results" / "speed.json")
    assert speed["updates"] == {"gated-longer": 4, "gated": 4} and set(speed["tests"]) == {"one"}
    first, second = speed["tests"]["one"].values()
    assert len(second["seconds"]) == 2 and min(first["tokens"], second["tokens"]) > 0
    assert first["speed"] == {"median": 1, "low": 1, "high": 1} != second["speed"]
    assert tiny("publish", "gated", "--cpu-minutes", budget) == 0
    published = read_json(tmp_path / "results" / "model.json")
    assert set(published["scores"]) == {"one", "test_2017_mscoco", "everyday"}
    assert published["files"]["model.pt"]["sha256"] == sha256_of(tmp_path / "model" / "model.pt")
    assert len(published["sentences"]) == 4
    assert str(tmp_path).encode() not in (tmp_path / "model" / "model.pt").read_bytes()
    # weights of float16, in a folder that translates by itself
    model = ResMLPModel.from_pretrained(tmp_path / "model")
    assert model.translate("man") is not None and model.cfg.generation.lenpen == published["lenpen"]


def test_the_published_model_has_the_scores_of_its_card(monkeypatch, tmp_path):
    """The files are those of the result file. The commands of the card translate and score a
    hundred sentences as it says. Another CPU rounds otherwise, and changes a line or two."""
    published = read_json(mixed.RESULTS / "model.json")
    for name, file in published["files"].items():
        assert sha256_of(mixed.MODEL / name) == file["sha256"]
    (tmp_path / "examples").symlink_to(mixed.HERE.parent)
    monkeypatch.chdir(tmp_path)
    (block,) = blocks(mixed.MODEL / "README.md")
    translate, score = (shlex.split(line)[1:] for line in block.text.splitlines())
    assert chosen_lenpen(mixed.MODEL) == published["lenpen"]
    for words in (translate, score):
        assert resmlp(*words).status == 0
    lines = (tmp_path / translate[-1]).read_text(encoding="utf-8").splitlines()
    same = [line == said for line, (_, said) in zip(lines, published["sentences"])]
    assert len(lines) == 100 and sum(same) >= 25
    for metric in ("bleu", "chrf"):
        found = mixed.scored(lines, mixed.EVERYDAY)[metric]
        assert abs(found - published["scores"]["everyday"][metric]) < 1.5


@pytest.mark.parametrize(
    "words, said",
    [
        (["corpus", "--from", "."], "valid.NAME.en"),
        (["score", "gated", "--cpu-minutes", "5"], "train first"),
        (["train", "gated", "--cpu-minutes", "0"], "--cpu-minutes 0"),
        (["publish", "gated", "--cpu-minutes", "5"], "score gated first"),
        (["speed", "gated", "--cpu-minutes", "5", "--threads", "0"], "--threads: must be at least"),
        (["speed", "gated", "--cpu-minutes", "5", "--repeats", "0"], "--repeats: must be at least"),
    ],
)
def test_refused(tiny, words, said, capsys):
    assert tiny(*words) == 1
    assert said in capsys.readouterr().err
