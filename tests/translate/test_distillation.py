"""Distillation: a teacher's beams become a training text, whole and in order, for a student."""

import gzip
import json
import multiprocessing
import os
import pickle
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import distill as script
import pytest
import torch
from cli import RECIPE, call, generate, lines, load, train, values

from resmlp_mt import run as experiment
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.score.sacre import score
from resmlp_mt.text.lines import read_lines, write_lines
from resmlp_mt.text.subwords import Subwords
from resmlp_mt.translate import beams, distillation, shards
from resmlp_mt.translate.distillation import Targets, distill, nearest, training_pairs
from resmlp_mt.translate.search import Search
from resmlp_mt.translate.teacher import Hypothesis, Teacher
from resmlp_mt.translate.translator import by_length

CPU = torch.device("cpu")
TRAIN = ("--max-tokens", 512, "--seed", 1)
DECODING = ("--lenpen", 0.6, "--remove-bpe", "sentencepiece")


def prepare(folder, corpora, monkeypatch, spm=None):
    """The data of an experiment, made without starting programs; gives the experiment."""
    monkeypatch.setattr(experiment, "run_program", lambda name, options, log: call(name, *options))
    recipe = experiment.Recipe("resmlp_mt_tiny", "xx", "yy", vocab_size=52, updates=1)
    run = experiment.Experiment(folder, recipe, corpora, spm=spm)
    run.prepare()
    return run


@pytest.fixture(scope="module")
def world(corpus, tmp_path_factory):
    """A small trained teacher, ``model``, and all that goes with it."""
    folder = tmp_path_factory.mktemp("teacher")
    sides = [(corpus.text / f"{split}.{x}") for split in corpus.sizes for x in ("xx", "yy")]
    corpora = dict(zip(corpus.sizes, zip(sides[::2], sides[1::2])))
    with pytest.MonkeyPatch.context() as monkeypatch:
        run = prepare(folder, corpora, monkeypatch)
    train(run.data_bin, folder / "train", *TRAIN, "--max-epoch", 20, "--save-interval", 20)
    model, spm = folder / "train" / "checkpoint_last.pt", run.subwords / "spm.model"
    return SimpleNamespace(
        corpora=corpora,
        source=sides[0],
        target=sides[1],
        data=run.data_bin,
        spm=spm,
        model=model,
        search=Search((model,), run.data_bin, spm, max_len=25, max_tokens=200),
    )


def make(world, prefix, *, search=None, source=None, target=None, processes=1, beams=None, **how):
    files = source or world.source, target or world.target
    search = search or world.search
    return distill(search, *files, Path(prefix), Targets(**how), beams, processes)["results"]


def texts(prefix):
    return [list(read_lines(f"{prefix}.{language}")) for language in ("xx", "yy")]


def test_targets_are_what_fairseq_generate_gives(world, tmp_path):
    made = make(world, tmp_path / "d" / "train", failures="keep")
    out = generate(world.data, world.model, "--gen-subset", "train", "--max-len-b", 25, *DECODING)
    expected = [found[0][1] for _, found in sorted(lines(out, "D").items())]
    assert texts(tmp_path / "d" / "train") == [list(read_lines(world.source)), expected]
    references = list(read_lines(world.target))
    assert made["teacher"]["bleu"] == score(expected, references)["bleu"] > 0
    assert made["lines"] == made["pairs"] == 61 and made["original_pairs"] == 0


def test_another_model_and_an_ensemble_as_teacher(world, tmp_path):
    size = [
        f"--{side}-{what}" for side in ("encoder", "decoder") for what in ("layers", "embed-dim")
    ]
    size = [str(word) for option, n in zip(size, (1, 16, 1, 16)) for word in (option, n)]
    size += ["--encoder-attention-heads", "2", "--decoder-attention-heads", "2", "--arch"]
    limits = ("--max-source-positions", 32, "--max-target-positions", 32)
    train_options = (*RECIPE, *TRAIN, *limits, "--criterion", "cross_entropy", "--max-epoch", 1)
    models = tmp_path / "models"
    call("train", world.data, "--save-dir", models, *size, "transformer", *train_options)
    other = models / "checkpoint_last.pt"
    for name, checkpoints in {"one": (other,), "two": (world.model, other)}.items():
        search = replace(world.search, checkpoints=checkpoints)
        made = make(world, tmp_path / name, search=search, failures="keep")
        paths = ":".join(map(str, checkpoints))
        out = generate(world.data, paths, "--gen-subset", "train", "--max-len-b", 25, *DECODING)
        expected = [found[0][1] for _, found in sorted(lines(out, "D").items())]
        assert texts(tmp_path / name)[1] == expected
        manifest = json.loads((tmp_path / f"{name}.json").read_text())
        assert len(set(manifest["options"]["teacher"])) == len(checkpoints)
        assert made["teacher"]["files"] == [str(path) for path in checkpoints]
    assert texts(tmp_path / "one") != texts(tmp_path / "two")


@pytest.fixture
def hard(world, tmp_path):
    """Lines that go wrong: blank, one word too long for 32 positions; and the longest that fits."""
    source = ["w01 w02", "  ", " ".join("w" * 32), " ".join("w" * 31)]
    assert len(Subwords(world.spm).encode(source[3]).split()) == 31
    write_lines(tmp_path / "hard.xx", source)
    write_lines(tmp_path / "hard.yy", ["r1", "r2", "r3", "r4"])
    return {"source": tmp_path / "hard.xx", "target": tmp_path / "hard.yy"}


def test_failures_are_counted_listed_and_handled(world, hard, tmp_path):
    short = replace(world.search, max_len=1)
    both = {"blank source": 1, "source too long": 1}
    beams = tmp_path / "beams"
    for failures in ("keep", "drop", "reference"):
        made = make(world, tmp_path / failures, beams=beams, failures=failures, **hard)
        assert made["failures"].items() >= both.items()
        rows = (tmp_path / f"{failures}.failures.tsv").read_text().splitlines()
        assert "2\tblank source\t\t" in rows
        assert any(row.startswith("3\tsource too long\tw") for row in rows)
        assert len(rows) == 1 + sum(made["failures"].values())
        source, target = texts(tmp_path / failures)
        assert len(source) == len(target) == made["pairs"]
        if failures == "keep":
            assert len(target) == 4 and target[1:3] == ["", ""] and target[0] and target[3]
        elif failures == "drop":
            assert len(target) == 4 - sum(made["failures"].values())
        else:
            assert len(target) == 4 and target[1:3] == ["r2", "r3"]
            assert source == list(read_lines(hard["source"]))
    # a search that is cut short at once ends by force
    made = make(world, tmp_path / "cut", search=short, **hard)
    assert made["failures"] == {**both, "length limit": 2}
    assert made["failures_first_lines"]["length limit"] == [1, 4]
    assert texts(tmp_path / "cut")[1] == ["r1", "r2", "r3", "r4"]
    rows = (tmp_path / "cut.failures.tsv").read_text().splitlines()[1:]
    assert all(len(row.split("\t")[3]) < 5 for row in rows)  # one piece
    with pytest.raises(UserError, match="failed on every line .length limit 2, blank source 1"):
        make(world, tmp_path / "none", search=short, failures="drop", **hard)
    assert not (tmp_path / "none.yy").exists()


def test_what_is_wrong_with_a_hypothesis(world):
    teacher = Teacher(world.search, CPU)
    dictionary = teacher.translator.task.target_dictionary
    piece, space = dictionary.nspecial, dictionary.add_symbol("▁")

    def wrong(*tokens):
        tokens = torch.tensor([*tokens, dictionary.eos()])
        return teacher._read({"tokens": tokens, "score": torch.tensor(-1.0)}).wrong

    assert wrong(piece) is None
    assert wrong() == wrong(space) == wrong(*[space] * 25) == "empty output"
    assert wrong(*[piece] * 24) is None and wrong(*[piece] * 25) == "length limit"
    assert wrong(piece, dictionary.unk()) == "unknown word"
    # a model that has learned nothing may have nothing to say
    teacher.translator.generator = SimpleNamespace(generate=lambda models, sample, **_: [[]])
    assert list(teacher.translate(["w01"])) == [{}, {0: [Hypothesis("", None, "empty output")]}]


def test_interpolation_and_original_pairs(world, tmp_path, monkeypatch):
    plain = make(world, tmp_path / "plain", failures="keep")
    # the second text is made of the first one's beams
    monkeypatch.setattr(beams, "Teacher", None)
    shared = tmp_path / "plain.beams"
    how = {"interpolate": True, "keep_original": True, "failures": "keep"}
    made = make(world, tmp_path / "near", beams=shared, **how)
    assert made["teacher"] == plain["teacher"]
    assert made["interpolated"]["bleu"] > made["teacher"]["bleu"]
    assert "eff:yes" in made["interpolated"]["by"]
    source, target = texts(tmp_path / "near")
    assert source == 2 * list(read_lines(world.source)) and len(target) == 122
    assert target[61:] == list(read_lines(world.target))
    changed = sum(a != b for a, b in zip(target, texts(tmp_path / "plain")[1]))
    assert changed and made["interpolated"]["not_the_best_scored"] == changed
    assert (made["pairs"], made["original_pairs"]) == (122, 61)


def test_nearest():
    beam = [Hypothesis(text, -1.0, None) for text in ("x y z u", "a b c x", "a b c d")]
    assert nearest(beam, "a b c d") is beam[2]
    assert nearest(beam, "q r s t") is beam[0]
    ended = [beam[0], beam[2]._replace(wrong="length limit")]
    assert nearest(ended, "a b c d") is ended[0] and nearest(ended[1:], "a b c d") is ended[1]


def test_unknown_words_are_failures():
    chosen = [Hypothesis("a <unk>", -1.0, "unknown word"), Hypothesis("b", -1.0, None)]
    pairs = [("s1", "r1"), ("s2", "r2")]
    found, failures = training_pairs(pairs, chosen, Targets())
    assert found == [("s1", "r1"), ("s2", "b")] and failures == [
        (1, "unknown word", "s1", "a <unk>")
    ]


def test_batches_by_length():
    lengths = [3, 9, 1, 4, 4, 30]
    assert by_length([0, 1, 2, 3, 4], lengths, 12) == [[1], [3, 4, 0], [2]]
    assert by_length([0, 1, 2, 3, 4, 5], lengths, 12) == [[5], [1, 3, 4], [0, 2]]
    assert by_length([], lengths, 12) == []


def test_a_stopped_run_goes_on(world, tmp_path, monkeypatch):
    monkeypatch.setattr(beams, "CHUNK_LINES", 20)
    make(world, tmp_path / "whole")
    translate, asked = Teacher.translate, []

    def stopping(self, some):
        asked.append(len(some))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return translate(self, some)

    monkeypatch.setattr(Teacher, "translate", stopping)
    with pytest.raises(KeyboardInterrupt):
        make(world, tmp_path / "stopped")
    assert not (tmp_path / "stopped.yy").exists()
    made = make(world, tmp_path / "stopped")
    assert asked == [20, 20, 20, 20, 1]  # the third twice
    assert texts(tmp_path / "stopped") == texts(tmp_path / "whole")
    # and a finished one is not touched again
    before = (tmp_path / "stopped.json").stat().st_mtime_ns
    assert make(world, tmp_path / "stopped") == made and len(asked) == 5
    assert (tmp_path / "stopped.json").stat().st_mtime_ns == before
    # a text that is gone is made of the beams
    (tmp_path / "stopped.yy").unlink()
    make(world, tmp_path / "stopped")
    assert texts(tmp_path / "stopped") == texts(tmp_path / "whole") and len(asked) == 5


def test_other_options_and_damaged_files_are_refused(world, hard, tmp_path, monkeypatch):
    make(world, tmp_path / "a")
    text = (tmp_path / "a.yy").read_text()
    for how, said in (
        ({"search": replace(world.search, beam=2)}, "a.json: results made with beam = 4, not 2"),
        ({"interpolate": True}, "interpolate = false, not true"),
        (hard, "corpus = "),
    ):
        with pytest.raises(UserError, match=said):
            make(world, tmp_path / "a", **how)
    with pytest.raises(UserError, match="a.beams.manifest.json: results made with lenpen = 0.6"):
        search = replace(world.search, lenpen=1.0)
        make(world, tmp_path / "b", search=search, beams=tmp_path / "a.beams")
    chunk = tmp_path / "a.beams" / "000000.jsonl.gz"
    whole = chunk.read_bytes()
    shorter = gzip.compress(b"".join(gzip.decompress(whole).splitlines(keepends=True)[:-1]))
    for damaged in (whole[: len(whole) // 2], b"", b"no gzip", shorter):
        chunk.write_bytes(damaged)
        with pytest.raises(UserError, match="000000.jsonl.gz is damaged: delete it"):
            make(world, tmp_path / "b", beams=tmp_path / "a.beams")
    assert (tmp_path / "a.yy").read_text() == text and not (tmp_path / "b.yy").exists()
    (tmp_path / "a.yy").write_text("by hand\n")
    with pytest.raises(UserError, match="a.yy is there already"):
        make(world, tmp_path / "a")
    (tmp_path / "c.xx").write_text("somebody's\n")
    with pytest.raises(UserError, match="c.xx is there already"):
        make(world, tmp_path / "c")
    assert (tmp_path / "c.xx").read_text() == "somebody's\n"


@pytest.fixture
def forked(monkeypatch):
    """Processes of this one's kind, which have its modules already and what a test put in them."""
    context = multiprocessing.get_context("fork")
    monkeypatch.setattr(shards, "get_context", lambda _: context)


def test_several_processes_give_the_same(world, tmp_path, monkeypatch, forked):
    monkeypatch.setattr(beams, "CHUNK_LINES", 9)
    make(world, tmp_path / "one")
    made = make(world, tmp_path / "three", processes=3)
    assert texts(tmp_path / "three") == texts(tmp_path / "one") and made["lines"] == 61
    assert len(list((tmp_path / "three.beams").glob("*.gz"))) == 7
    # what a process that is not forked is sent
    assert pickle.loads(pickle.dumps((world.search, CPU))) == (world.search, CPU)


def test_a_process_that_fails_ends_the_run(world, tmp_path, monkeypatch, forked):
    monkeypatch.setattr(beams, "CHUNK_LINES", 9)
    translate = Teacher.translate

    def killed(self, some):
        if some[0] == third:
            os.kill(os.getpid(), signal.SIGKILL)
        return translate(self, some)

    third = list(read_lines(world.source))[18]
    monkeypatch.setattr(Teacher, "translate", killed)
    with pytest.raises(UserError, match="a process ended with status -9.*fewer --shards"):
        make(world, tmp_path / "a", processes=2)
    assert not multiprocessing.active_children() and not (tmp_path / "a.yy").exists()
    monkeypatch.setattr(Teacher, "translate", translate)
    made = make(world, tmp_path / "a", processes=2)
    assert made["lines"] == len(texts(tmp_path / "a")[1]) == 61

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Teacher, "translate", full)
    with pytest.raises(UserError, match="No space left on device"):
        make(world, tmp_path / "full", processes=2)
    monkeypatch.setattr(Teacher, "translate", translate)
    (tmp_path / "no.model").write_text("text\n")
    unfit = replace(world.search, spm=tmp_path / "no.model")
    with pytest.raises(UserError, match="no.model: missing or no SentencePiece model"):
        make(world, tmp_path / "b", search=unfit, processes=2)


def run_script(world, monkeypatch, prefix, *more, **files):
    files = {
        "teacher": world.model,
        "data": world.data,
        "spm": world.spm,
        "source": world.source,
        "target": world.target,
        "output-prefix": prefix,
        **{name.replace("_", "-"): path for name, path in files.items()},
    }
    options = [str(word) for name, path in files.items() for word in (f"--{name}", path)]
    monkeypatch.setattr("sys.argv", ["distill.py", *options, "--cpu", *map(str, more)])
    return run_main(script.main)


def test_bad_input_ends_in_one_line(world, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty.yy").touch()
    write_lines(tmp_path / "one.yy", ["w01"])
    (tmp_path / "cut.pt").write_bytes(world.model.read_bytes()[:3000])
    torch.save(
        {"model": {}, "cfg": {"task": {"_name": "language_modeling"}}}, tmp_path / "other.pt"
    )
    state = load(world.model)
    state["model"].popitem()
    torch.save(state, tmp_path / "unfit.pt")
    state["cfg"]["task"].update(source_lang="xx", target_lang="zz")
    torch.save(state, tmp_path / "zz.pt")
    write_lines(tmp_path / "text.en", [f"quick brown foxes {word}" for word in "abcdefgh"])
    foreign = experiment.train_subwords(read_lines(tmp_path / "text.en"), tmp_path / "f", 30)
    (tmp_path / "file").touch()
    before = sorted(tmp_path.iterdir())
    for said, more, files in (
        ("cut.pt is damaged", (), {"teacher": tmp_path / "cut.pt"}),
        ("no.pt: No such file", (), {"teacher": tmp_path / "no.pt"}),
        (
            "other.pt is not a translation model's checkpoint: its task is language",
            (),
            {"teacher": tmp_path / "other.pt"},
        ),
        ("unfit.pt does not fit the model", (), {"teacher": tmp_path / "unfit.pt"}),
        ("zz.pt translates xx-zz, but", ("--ensemble", tmp_path / "zz.pt"), {}),
        ("has no files such as train.en-de.en.idx", (), {"data": tmp_path}),
        ("no.model: No such file", (), {"spm": tmp_path / "no.model"}),
        ("missing or no SentencePiece model", (), {"spm": tmp_path / "one.yy"}),
        ("subwords in the teacher's dictionary", (), {"spm": foreign}),
        ("empty.yy: empty file", (), {"target": tmp_path / "empty.yy"}),
        ("has 61 lines but", (), {"target": tmp_path / "one.yy"}),
        ("not the other way round", (), {"source": world.target, "target": world.source}),
        ("choose a folder that can be written", (), {"output_prefix": tmp_path / "file" / "train"}),
        ("--beam 0: must be at least 1", ("--beam", 0), {}),
        ("--lenpen nan", ("--lenpen", "nan"), {}),
    ):
        prefix = files.pop("output_prefix", tmp_path / "out" / "train")
        assert run_script(world, monkeypatch, prefix, *more, **files) == 1, said
        printed = capsys.readouterr().err.strip().splitlines()
        assert said in printed[-1] and printed[-1].startswith("distill.py: error: "), printed
        assert not list(tmp_path.glob("out/train.??")) and not list(tmp_path.glob("out/*.json"))
    assert {*tmp_path.iterdir()} - {*before} == {tmp_path / "out"}


def test_a_student_is_trained_on_it(world, tmp_path, monkeypatch, capsys):
    prefix = tmp_path / "distilled" / "train"
    options = ("--max-len", 20, "--interpolate", "--keep-original", "--shards", 1)
    assert run_script(world, monkeypatch, prefix, *options) == 0
    printed = capsys.readouterr().out
    manifest = json.loads(Path(f"{prefix}.json").read_text())
    bleu = manifest["results"]["teacher"]["bleu"]
    assert f"the teacher's best against the references: BLEU {bleu:.1f}" in printed
    assert "61 sentences translated" in printed and "122 pairs (61 with" in printed
    corpora = {**world.corpora, "train": (Path(f"{prefix}.xx"), Path(f"{prefix}.yy"))}
    student = prepare(tmp_path / "student", corpora, monkeypatch, spm=world.spm)
    assert len(list(read_lines(student.subwords / "train.yy"))) == 122
    log = train(student.data_bin, tmp_path / "train", *TRAIN, "--max-epoch", 4).log
    losses = values(log, "valid_loss")
    assert len(losses) == 4 and losses[-1] < losses[0]
    out = generate(student.data_bin, tmp_path / "train" / "checkpoint_last.pt", *DECODING)
    assert len(lines(out, "D")) == 11


def test_failures_are_those_of_the_script(world, tmp_path, monkeypatch, capsys, hard):
    assert run_script(world, monkeypatch, tmp_path / "cut", "--max-len", 1, **hard) == 0
    printed = capsys.readouterr().out
    assert "failures: 4 of 4:" in printed and "length limit: 2 (line 1, 4)" in printed
    assert "replaced by the reference; all are in" in printed
    assert set(distillation.FAILURES) == {"reference", "drop", "keep"}
