"""resmlp-mt distill: the beams of a teacher become a training text, whole and in order."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from command import refused, resmlp
from fairseq_programs import call, lines, load, preprocess, train, values
from sacrebleu.metrics import BLEU

from resmlp_mt.processes import Workers
from resmlp_mt.score.sacre import score
from resmlp_mt.text.bleu import bleu_metric
from resmlp_mt.text.lines import read_lines, write_lines
from resmlp_mt.text.subwords import Subwords
from resmlp_mt.translate import parts
from resmlp_mt.translate.distillation import nearest
from resmlp_mt.translate.translator import Hypothesis

SHORT = ("--max-len-b", 25)


@pytest.fixture(scope="module")
def words(world):
    """The words of the command for a text, by default the training text."""

    def words(prefix, *more, source=world.text / "train.xx", target=world.text / "train.yy"):
        models = ("--path", world.checkpoint, "--data", world.data, "--cpu", *SHORT)
        return ("distill", *models, "--source", source, "--target", target, "--out", prefix, *more)

    return words


@pytest.fixture(scope="module")
def make(words):
    """Distill; gives the results in the manifest, and what was printed."""

    def make(prefix, *more, **text):
        said = resmlp(*words(prefix, *more, **text))
        assert said.status == 0, said
        return json.loads(Path(f"{prefix}.json").read_text())["results"], said.out

    return make


def texts(prefix):
    return [list(read_lines(f"{prefix}.{language}")) for language in ("xx", "yy")]


def failures_of(prefix):
    """The rows of the list of failures: line, kind, source, output."""
    path = Path(f"{prefix}.failures.tsv")
    return [row.split("\t") for row in path.read_text().splitlines()[1:]] if path.exists() else []


def test_targets_are_what_fairseq_generate_gives(world, make, tmp_path):
    made, printed = make(tmp_path / "d" / "train")
    options = ("--path", world.checkpoint, "--beam", 4, "--cpu", "--num-workers", 0, *SHORT)
    decoding = ("--gen-subset", "train", "--lenpen", 0.6, "--remove-bpe", "sentencepiece")
    out = call("generate", world.data, *options, *decoding).out
    expected = [found[0][1] for _, found in sorted(lines(out, "D").items())]
    sources, references = (list(read_lines(world.text / f"train.{x}")) for x in ("xx", "yy"))
    for row in failures_of(tmp_path / "d" / "train"):
        expected[int(row[0]) - 1] = references[int(row[0]) - 1]
    assert texts(tmp_path / "d" / "train") == [sources, expected] and expected != references
    assert made["lines"] == made["pairs"] == 61 and "61 sentences translated" in printed


@pytest.fixture
def hard(world, tmp_path):
    """Lines that go wrong: blank, one word too long for 32 positions; and the longest that fits."""
    source = ["w01 w02", "  ", " ".join("w" * 32), " ".join("w" * 31)]
    assert len(Subwords(world.spm).encode(source[3]).split()) == 31
    write_lines(tmp_path / "hard.xx", source)
    write_lines(tmp_path / "hard.yy", ["r1", "r2", "r3", "r4"])
    return {"source": tmp_path / "hard.xx", "target": tmp_path / "hard.yy"}


def test_failures_are_counted_listed_and_handled(make, words, hard, tmp_path):
    both = {"blank source": 1, "source too long": 1}
    beams = ("--beams", tmp_path / "beams")
    for failures in ("drop", "reference"):
        made, printed = make(tmp_path / failures, *beams, "--failures", failures, **hard)
        assert made["failures"].items() >= both.items()
        rows = failures_of(tmp_path / failures)
        assert ["2", "blank source", "", ""] in rows
        assert any(row[:2] == ["3", "source too long"] for row in rows)
        assert len(rows) == sum(made["failures"].values())
        source, target = texts(tmp_path / failures)
        assert len(source) == len(target) == made["pairs"]
        if failures == "drop":
            assert len(target) == 4 - sum(made["failures"].values())
        else:
            assert len(target) == 4 and target[1:3] == ["r2", "r3"]
            assert source == list(read_lines(hard["source"]))
    assert "replaced by the reference, and all are in" in printed
    # a search that is cut short at once ends by force
    cut = ("--max-len-b", 1)
    made, printed = make(tmp_path / "cut", *cut, **hard)
    assert made["failures"] == {**both, "length limit": 2}
    assert "failures: 4 of 4 lines" in printed and "length limit 2" in printed
    assert texts(tmp_path / "cut")[1] == ["r1", "r2", "r3", "r4"]
    none = tmp_path / "none"
    refused("failed on every line (length", *words(none, *cut, "--failures", "drop", **hard))
    assert not (tmp_path / "none.yy").exists() and not (tmp_path / "none.xx").exists()


def test_interpolation(world, make, tmp_path, monkeypatch):
    """Of the beams that were made for the first text."""
    monkeypatch.setattr(parts, "CHUNK_LINES", 20)
    make(tmp_path / "plain")
    options = ("--beams", tmp_path / "plain.beams", "--interpolate")
    _, printed = make(tmp_path / "near", *options)
    assert "0 sentences translated" in printed and "near.xx, near.yy: 61 pairs" in printed
    plain, near = texts(tmp_path / "plain"), texts(tmp_path / "near")
    references = list(read_lines(world.text / "train.yy"))
    assert near[0] == plain[0] and near[1] != plain[1]
    assert score(near[1], references)["bleu"] > score(plain[1], references)["bleu"]


def test_nearest():
    metric = BLEU(effective_order=True)
    beam = [Hypothesis(text, -1.0, None) for text in ("x y z u", "a b c x", "a b c d")]
    assert nearest(beam, "a b c d", metric) is beam[2]
    assert nearest(beam, "q r s t", metric) is beam[0]
    ended = [beam[0], beam[2]._replace(wrong="length limit")]
    assert nearest(ended, "a b c d", metric) is ended[0]
    assert nearest(ended[1:], "a b c d", metric) is ended[1]


def test_a_stopped_run_resumes(make, words, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "CHUNK_LINES", 20)
    make(tmp_path / "whole")
    search = Workers.map

    def stopping(self, function, items):
        results = search(self, function, items)
        for number, result in enumerate(results):
            if function.__name__ == "_search" and number == 15:
                raise KeyboardInterrupt
            yield result

    monkeypatch.setattr(Workers, "map", stopping)
    assert resmlp(*words(tmp_path / "stopped", "--max-tokens", 40)).status == 130
    assert not (tmp_path / "stopped.yy").exists()
    monkeypatch.setattr(Workers, "map", search)
    made, _ = make(tmp_path / "stopped")
    assert 0 < made["searched"]["sentences"] < 61
    assert texts(tmp_path / "stopped") == texts(tmp_path / "whole")
    # and a finished one is not touched again
    before = (tmp_path / "stopped.json").stat().st_mtime_ns
    assert make(tmp_path / "stopped")[0] == made
    assert (tmp_path / "stopped.json").stat().st_mtime_ns == before
    # a text that is gone is made of the beams
    (tmp_path / "stopped.yy").unlink()
    assert make(tmp_path / "stopped")[0]["searched"]["sentences"] == 0
    assert texts(tmp_path / "stopped") == texts(tmp_path / "whole")


def test_what_is_there_is_not_overwritten(make, words, hard, tmp_path):
    make(tmp_path / "a")
    text = (tmp_path / "a.yy").read_text()
    refused("a.json: results made with beam = 4, not", *words(tmp_path / "a", "--beam", 2))
    refused("interpolate = false, not true", *words(tmp_path / "a", "--interpolate"))
    refused("corpus = ", *words(tmp_path / "a", **hard))
    beams = ("--beams", tmp_path / "a.beams")
    said = "a.beams holds translations made with lenpen = 0.6"
    refused(said, *words(tmp_path / "b", *beams, "--lenpen", 1))
    chunk = tmp_path / "a.beams" / "000000.jsonl.gz"
    chunk.write_bytes(chunk.read_bytes()[:-20])
    refused("000000.jsonl.gz is damaged: delete it", *words(tmp_path / "b", *beams))
    assert (tmp_path / "a.yy").read_text() == text and not (tmp_path / "b.yy").exists()
    (tmp_path / "a.yy").write_text("by hand\n")
    refused("a.yy is there already", *words(tmp_path / "a"))
    (tmp_path / "c.xx").write_text("another text\n")
    refused("c.xx is there already", *words(tmp_path / "c"))
    assert (tmp_path / "c.xx").read_text() == "another text\n"


def test_bad_input_ends_in_one_line(world, words, tmp_path):
    (tmp_path / "empty.yy").touch()
    write_lines(tmp_path / "one.yy", ["w01"])
    source, target = world.text / "train.xx", world.text / "train.yy"
    out = tmp_path / "out" / "train"
    refused("empty.yy: empty file", *words(out, target=tmp_path / "empty.yy"))
    refused("has 61 lines but", *words(out, target=tmp_path / "one.yy"))
    refused("not the other way round", *words(out, source=target, target=source))
    # a model of the other direction, trained on the same data
    state = load(world.checkpoint)
    state["cfg"]["task"].update(source_lang="yy", target_lang="xx")
    torch.save(state, tmp_path / "back.pt")
    said = "the model is yy-xx, not the other way round"
    refused(said, *words(out, "--path", tmp_path / "back.pt"))
    for path in world.data.glob("dict.*"):  # no text.json, which says the languages
        shutil.copy(path, tmp_path)
    silent = ("--data", tmp_path, "--spm", world.spm, "--path", tmp_path / "back.pt")
    refused("the model translates from yy, not the other way round", *words(out, *silent))
    refused("one file: give both sides", *words(out, source=source, target=source))
    refused("choose a folder that can be written", *words(tmp_path / "one.yy" / "train"))
    refused("no.pt: no such file", *words(out, "--path", tmp_path / "no.pt"))
    assert not list(tmp_path.glob("out/*"))


def test_a_student_is_trained_on_it(world, make, tmp_path):
    prefix = tmp_path / "distilled" / "train"
    make(prefix, "--interpolate")
    subwords = Subwords(world.spm)
    for language, side in zip(("xx", "yy"), texts(prefix)):
        write_lines(tmp_path / f"train.{language}", map(subwords.encode, side))
    preprocess(tmp_path / "bin", train=tmp_path / "train", valid=tmp_path / "train")
    options = ("--max-tokens", 512, "--max-epoch", 4, "--share-all-embeddings")
    log = train(tmp_path / "bin", tmp_path / "student", *options).log
    losses = values(log, "valid_loss")
    assert len(losses) == 4 and losses[-1] < losses[0]


@pytest.mark.parametrize("language", ["zh", "zh_CN", "zh-Hans", "cmn"])
def test_interpolation_knows_the_tokenizer_of_a_language(language):
    metric = bleu_metric(language, effective_order=True)
    near = metric.sentence_score("他的母亲是一名医生。", ["他的父亲是一名医生。"])
    assert near.score > 50
