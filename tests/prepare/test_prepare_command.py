"""scripts/prepare.py as a user runs it: from text to binary data, stopped, resumed, refused."""

import errno
import json
import os
import re
import resource
import shutil
import signal
import sys

import prepare
import pytest
from fairseq.data import Dictionary, data_utils
from prepare_text import pairs_of, write_layout, write_side

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.prepare import cleaning, encoding, space
from resmlp_mt.prepare import prepare as steps
from resmlp_mt.prepare.recipes import PAIRS
from resmlp_mt.text.lines import sha256_of

EN_DE, EN_FR = PAIRS["en-de"], PAIRS["en-fr"]
BAD = [("", "empty"), ("many words " * 9, "one"), (b"\xff", "x")]


def run(*arguments) -> int:
    """The exit status of ``prepare.py ARGUMENTS``."""
    sys.argv = ["prepare.py", *map(str, arguments)]
    return run_main(prepare.main, resumes=True)


@pytest.fixture(autouse=True)
def arguments_as_before(monkeypatch):
    monkeypatch.setattr(sys, "argv", sys.argv)


@pytest.fixture
def text(tmp_path):
    corpora = {"one": pairs_of(150, 1) + BAD, "two": pairs_of(90, 2) + pairs_of(10, 1)}
    return write_layout(tmp_path / "text", EN_DE, corpora)


def from_text(tmp_path, text, *more, out="out"):
    return run("en-de", "--from", text, "--out", tmp_path / out, "--vocab-size", 90, *more)


def refused(capsys, status):
    """What is printed on a user's error: one line."""
    assert status == 1
    printed = capsys.readouterr().err.replace("\r", "\n").splitlines()
    lines = [line for line in printed if line.startswith("prepare.py: error: ")]
    bars = [line for line in printed if line and line not in lines]
    assert len(lines) == 1 and printed[-1] == lines[0]
    assert all("B/s" in line or "pairs" in line for line in bars), bars
    return lines[0]


def data(folder):
    """Every file of the results but the reports, in which costs differ."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("report.json", "manifest.json")
    }


def test_text_to_binary_data(tmp_path, text, capsys):
    assert from_text(tmp_path, text, "--workers", 2) == 0
    printed = capsys.readouterr().out
    assert "one: 153 pairs read, dropped: 1 empty, 1 invalid-utf8\n" in printed.replace(
        "1 invalid-utf8, 1 empty", "1 empty, 1 invalid-utf8"
    )
    assert "two: 100 pairs read, dropped: 10 duplicate\n" in printed
    dropped = int(re.search(r"all: 241 pairs encoded, dropped: (\d+) length-ratio\n", printed)[1])
    assert f"data-bin: train {241 - dropped} pairs, valid 20, test 20; " in printed
    assert "test1.eng has 20 lines, newstest2014 in full has 3003" in printed
    out = tmp_path / "out"
    names = ["data-bin", "manifest.json", "subwords", "text"]
    assert sorted(path.name for path in out.iterdir()) == names
    for split, count in (("train", 241 - dropped), ("valid", 20), ("test", 20)):
        for side in ("en", "de"):
            path = str(out / "data-bin" / f"{split}.en-de.{side}")
            assert len(data_utils.load_indexed_dataset(path)) == count
    for ours, its in (("valid.en", "dev.eng"), ("test.de", "test1.deu")):
        assert (out / "text" / ours).read_bytes() == (text / its).read_bytes()


def test_the_manifest(tmp_path, text):
    from_text(tmp_path, text, "--limit", 120)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["pair"], manifest["limit"], manifest["vocab_size"]) == ("en-de", 120, 90)
    results = manifest["results"]
    assert [counts["read"] for counts in results["text"]["corpora"].values()] == [120, 100]
    given = results["inputs"]["corpora"]
    assert given["one"]["pairs"] == 153
    assert given["two"]["sha256"] == {
        f"two.{tag}": sha256_of(text / "train-parts" / f"two.{tag}") for tag in ("eng", "deu")
    }
    for step in ("text", "subwords", "data-bin"):
        folder = tmp_path / "out" / step
        files = {p.name: sha256_of(p) for p in folder.iterdir() if p.name != "report.json"}
        assert results[step]["sha256"] == files
        assert results[step]["cost"]["wall_seconds"] > 0
    assert {"resmlp_mt", "sentencepiece", "sacremoses", "torch"} <= set(results["versions"])


def test_english_french_is_normalised_in_all_splits_but_not_for_scoring(tmp_path):
    text = write_layout(tmp_path / "text", EN_FR, {"a": pairs_of(200, 1)})
    quoted = [f"«\u00a0{french}\u00a0»" for _, french in pairs_of(200, 1)]
    write_side(text / "train-parts" / "a.fra", quoted)
    write_side(text / "dev.fra", quoted[:20])
    assert run("en-fr", "--from", text, "--out", tmp_path / "out", "--vocab-size", 90) == 0
    data_bin = tmp_path / "out" / "data-bin"
    assert (data_bin / "dict.en.txt").read_bytes() == (data_bin / "dict.fr.txt").read_bytes()
    valid = data_utils.load_indexed_dataset(str(data_bin / "valid.en-fr.fr"))
    dictionary = Dictionary.load(str(data_bin / "dict.fr.txt"))
    decoded = [dictionary.string(words, "sentencepiece") for words in valid]
    normal = (tmp_path / "out" / "text" / "train.fr").read_text().splitlines()
    assert all(line.startswith('"') for line in normal) and decoded == normal[:20]
    assert (tmp_path / "out" / "text" / "valid.fr").read_text().splitlines() == quoted[:20]


def test_the_result_does_not_depend_on_the_number_of_workers(tmp_path, text, monkeypatch):
    from_text(tmp_path, text, "--workers", 1, out="1")
    monkeypatch.setattr("resmlp_mt.prepare.parallel.CHUNK_LINES", 20)
    from_text(tmp_path, text, "--workers", 3, out="3")
    assert data(tmp_path / "1") == data(tmp_path / "3")


def test_a_complete_result_is_left_alone(tmp_path, text, capsys):
    from_text(tmp_path, text)
    before = (tmp_path / "out" / "manifest.json").read_bytes()
    capsys.readouterr()
    assert from_text(tmp_path, text) == 0
    printed = capsys.readouterr().out
    assert "out is complete: nothing to do" in printed and "data-bin: train" in printed
    assert (tmp_path / "out" / "manifest.json").read_bytes() == before


def full_disk(monkeypatch, after):
    """A disk that is full after so many writes of binary data."""
    write, writes = encoding.DataWriter.add, []

    def add(self, *sentences):
        writes.append(self)
        if len(writes) > after:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, *sentences)

    monkeypatch.setattr(encoding.DataWriter, "add", add)


def test_a_disk_full_in_the_middle_of_encoding(tmp_path, text, monkeypatch, capsys):
    from_text(tmp_path, text, out="whole")
    capsys.readouterr()
    with monkeypatch.context() as patch:
        patch.setattr("resmlp_mt.prepare.parallel.CHUNK_LINES", 50)
        full_disk(patch, after=5)
        message = refused(capsys, from_text(tmp_path, text))
    assert f"{tmp_path / 'out'}: No space left on device: make room and run" in message
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == ["manifest.json", "subwords", "text"]
    assert from_text(tmp_path, text) == 0
    printed = capsys.readouterr().out
    assert "[2/3] SentencePiece: done before, reused" in printed
    assert data(tmp_path / "out") == data(tmp_path / "whole")


@pytest.mark.parametrize(
    "step, allowed", [("text", 5000), ("subwords", 900), ("subwords", 5000), ("data-bin", 3000)]
)
def test_a_quota_exceeded_in_any_step(tmp_path, text, monkeypatch, capsys, step, allowed):
    """The system's own limit on the size of files, in a step that has begun."""
    whole = resource.getrlimit(resource.RLIMIT_FSIZE)
    make = getattr(steps.Preparation, f"_make_{step.replace('-', '_')}")

    def limited(self, folder):
        resource.setrlimit(resource.RLIMIT_FSIZE, (allowed, whole[1]))
        try:
            return make(self, folder)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, whole)

    with monkeypatch.context() as patch:
        patch.setattr(steps.Preparation, make.__name__, limited)
        message = refused(capsys, from_text(tmp_path, text))
    assert "File too large: make room and run" in message or "is the disk full?" in message
    done = ["text", "subwords", "data-bin"]
    expected = ["manifest.json", *done[: done.index(step)]]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(expected)
    assert from_text(tmp_path, text) == 0


def test_a_run_stopped_by_the_user_goes_on(tmp_path, text, monkeypatch, capsys):
    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(steps, "encode", stopped)
        assert from_text(tmp_path, text) == 130
    assert "the same command goes on from here" in capsys.readouterr().err
    assert not (tmp_path / "out" / "data-bin.partial").exists()
    assert from_text(tmp_path, text) == 0
    assert "[1/3] normalise and clean: done before, reused" in capsys.readouterr().out


def test_a_worker_that_is_killed(tmp_path, text, monkeypatch, capsys):
    monkeypatch.setattr(cleaning, "clean_pair", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    message = refused(capsys, from_text(tmp_path, text))
    assert "ended from outside" in message and "fewer --workers" in message
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["manifest.json"]


def test_a_disk_that_is_too_small_is_refused_early(tmp_path, text, monkeypatch, capsys):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(space.shutil, "disk_usage", lambda _: usage._replace(free=10**6))
    message = refused(capsys, from_text(tmp_path, text))
    assert "preparing 253 sentence pairs needs about 0.02 GB of disk, 0.00 GB are free" in message
    assert not (tmp_path / "out").exists()


def test_results_of_other_options(tmp_path, text, capsys):
    from_text(tmp_path, text)
    before = data(tmp_path / "out")
    capsys.readouterr()
    message = refused(capsys, from_text(tmp_path, text, "--limit", 9))
    assert "holds results made with limit = null, not 9: choose another folder" in message
    write_side(text / "train-parts" / "two.deu", ["other"] * 100)
    message = refused(capsys, from_text(tmp_path, text))
    assert "made with corpus two = " in message
    assert data(tmp_path / "out") == before


def bad_input(text, tmp_path):
    """Arguments, damage to *text*, what is said."""
    there = ["--from", text, "--out", tmp_path / "out", "--vocab-size", 90]
    parts = text / "train-parts"
    return {
        "pair": (["en-ru", *there], None, "en-ru: unknown pair: choose en-de or en-fr"),
        "limit": (["en-de", *there, "--limit", 0], None, "--limit 0: must be at least 1"),
        "workers": (["en-de", *there, "--workers", 0], None, "--workers 0: must be"),
        "pieces": (["en-de", *there[:-1], 70_000], None, "--vocab-size 70000: at most 65000"),
        "folder": (["en-de", "--from", tmp_path / "no", *there[2:]], None, "no: no such folder"),
        "languages": (["en-fr", *there], None, "one.fra is missing"),
        "shorter": (
            ["en-de", *there],
            lambda: write_side(parts / "two.deu", ["x"] * 99),
            "two.eng has 100 lines but",
        ),
        "gzip": (
            ["en-de", *there],
            lambda: ((parts / "two.deu").unlink(), (parts / "two.deu.gz").write_bytes(b"no")),
            "two.deu.gz: damaged gzip file",
        ),
        "held-out": (
            ["en-de", *there],
            lambda: write_side(text / "dev.deu", ["x"] * 19),
            "dev.eng has 20 lines but",
        ),
    }


CASES = "pair limit workers pieces folder languages shorter gzip held-out"


@pytest.mark.parametrize("case", CASES.split())
def test_bad_input_leaves_nothing_behind(tmp_path, text, capsys, case):
    arguments, damage, said = bad_input(text, tmp_path)[case]
    if damage is not None:
        damage()
    assert said in refused(capsys, run(*arguments))
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_that_does_not_fit_the_text(tmp_path, text, capsys):
    message = refused(capsys, from_text(tmp_path, text, "--vocab-size", 30_000))
    assert "--vocab-size 30000 is more than this corpus allows: at most " in message
    assert f"in another folder, or when {tmp_path / 'out'} is deleted" in message


def test_no_pair_is_left(tmp_path, capsys):
    text = write_layout(tmp_path / "text", EN_DE, {"a": [("", "x"), ("y", "")]})
    assert "no training pair is left" in refused(capsys, from_text(tmp_path, text))


def test_a_held_out_line_that_is_not_utf8(tmp_path, text, capsys):
    write_side(text / "test1.deu", ["x"] * 19 + [b"\xff"])
    message = refused(capsys, from_text(tmp_path, text))
    assert "test1.deu, line 20: invalid UTF-8" in message
