"""``resmlp-mt prepare`` as a user runs it: from text to binary data, stopped, resumed, refused."""

import gzip
import json
import os
import re
import resource
import shlex
import shutil
import signal

import pytest
from command import refused, resmlp
from fairseq.data import Dictionary, data_utils
from fairseq_programs import call
from prepare_text import pairs_of, write_layout, write_pairs, write_side
from processes import Forked

from resmlp_mt.prepare import cleaning, corpora, encoding
from resmlp_mt.prepare import preparation as steps
from resmlp_mt.text.lines import read_parallel
from resmlp_mt.text.settings import TextSettings
from resmlp_mt.text.subwords import Subwords

TAGS = ("eng", "deu")
BAD = [("", "empty"), ("many words " * 9, "one"), (b"\xff", "x")]
STEPS = ("text", "subwords", "data-bin")


@pytest.fixture
def text(tmp_path):
    """A folder of mtdata's, for --from."""
    parts = {"one": pairs_of(150, 1) + BAD, "two": pairs_of(90, 2) + pairs_of(10, 1)}
    return write_layout(tmp_path / "text", TAGS, parts)


@pytest.fixture
def own(tmp_path):
    """Text of a user: a pair of made-up languages, some of it twice or in gzip; its options."""
    folder = tmp_path / "own"
    quoted = [("“ka lo”", "‘mi’ ru")] * 2 + [("ka lo " * 60, "mi"), ("", "mi"), ("漢 ka", "lo 字")]
    for name, pairs in (
        ("t", pairs_of(150, 1) + quoted),
        ("v", pairs_of(20, 2) + quoted),
        ("one", pairs_of(9, 3)),
        ("two", pairs_of(8, 4)),
    ):
        write_pairs(folder, name, ("xa", "xb"), pairs)
    packed = folder / "two.xa"
    packed.with_name("two.xa.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    return [
        *("prepare", "--source-lang", "xa", "--target-lang", "xb", "--trainpref", folder / "t"),
        *("--validpref", folder / "v", "--testpref", f"{folder}/one,{folder}/two"),
        *("--vocab-size", 110, "--workers", 1),
    ]


def prepare(*words):
    said = resmlp(*words)
    assert said.status == 0, said.err
    return said


def from_text(tmp_path, text, *more, out="out"):
    options = ("--from", text, "--out", tmp_path / out, "--vocab-size", 90, "--workers", 1)
    return ("prepare", "--recipe", "wmt14-en-de", *options, *more)


def fails(said, *words):
    """It ends with an error of one line, behind the names of the steps that it has made."""
    found = resmlp(*words)
    assert found.status == 1 and not found.out
    *others, last = found.err.splitlines()
    assert last.startswith("resmlp-mt prepare: error: ") and said in last, found.err
    assert all(line.startswith("note: ") for line in others), found.err


def data(folder):
    """Every file of the results but the reports, in which costs differ."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("report.json", "manifest.json", ".lock")
    }


def there(out):
    return sorted(path.name for path in out.iterdir() if path.name != ".lock")


def lines_of(data_bin, split, languages, side):
    """What fairseq reads out of the binary data."""
    found = data_utils.load_indexed_dataset(str(data_bin / f"{split}.{languages}.{side}"))
    dictionary = Dictionary.load(str(data_bin / f"dict.{side}.txt"))
    return [dictionary.string(words, "sentencepiece") for words in found]


def test_text_of_a_user(tmp_path, own):
    """Nothing is changed, and nothing left out but what cannot be trained on."""
    said = prepare(*own, "--out", tmp_path / "out", "--max-pieces", 100)
    name = tmp_path / "own" / "t"
    assert f"{name}: 155 pairs read, dropped: 1 empty\n" in said.out
    assert "all: 154 pairs encoded, dropped: 1 too-long\n" in said.out
    assert "train 153, valid 25, test 9, test1 8 pairs, " in said.out
    train = read_parallel(*(tmp_path / "out" / "text" / f"train.{side}" for side in ("xa", "xb")))
    assert train[:152] == [*pairs_of(150, 1), *[("“ka lo”", "‘mi’ ru")] * 2]
    data_bin = tmp_path / "out" / "data-bin"
    assert lines_of(data_bin, "train", "xa-xb", "xb")[:152] == [target for _, target in train[:152]]
    assert lines_of(data_bin, "test1", "xa-xb", "xa") == [source for source, _ in pairs_of(8, 4)]
    settings = TextSettings.load(data_bin)
    assert (settings.source_lang, settings.target_lang, settings.normalise) == ("xa", "xb", False)


def test_a_corpus_that_is_given_twice(tmp_path, own):
    """Each of its pairs is counted, and the subwords know what stands behind it."""
    other = [(f"{source} 漢字", f"{target} 漢字") for source, target in pairs_of(40, 5)]
    write_pairs(tmp_path / "own", "z", ("xa", "xb"), other)
    own[6] = ",".join(str(tmp_path / "own" / name) for name in ("t", "t", "z"))
    said = prepare(*own, "--out", tmp_path / "out", "--max-pieces", 100)
    twice = 2 * 153 + 40
    assert f"train {twice}, valid" in said.out and "t (again): 155 pairs read" in said.out
    dictionary = (tmp_path / "out" / "data-bin" / "dict.xa.txt").read_text(encoding="utf-8")
    assert "漢" in dictionary
    said = prepare(*own, "--out", tmp_path / "once", "--max-pieces", 100, "--drop-duplicates")
    assert "t (again): 155 pairs read, dropped: 154 duplicate, 1 empty" in said.out


def test_what_the_options_change(tmp_path, own):
    options = ("--normalise", "--drop-duplicates", "--max-ratio", 2)
    said = prepare(*own, *options, "--out", tmp_path / "out")
    assert "155 pairs read, dropped: 1 empty, 1 duplicate\n" in said.out
    assert "all: 153 pairs encoded, dropped: 1 length-ratio\n" in said.out
    data_bin, text = tmp_path / "out" / "data-bin", tmp_path / "out" / "text"
    assert lines_of(data_bin, "train", "xa-xb", "xa")[150] == '"ka lo"'
    assert lines_of(data_bin, "valid", "xa-xb", "xb")[20:22] == ["'mi' ru"] * 2
    assert (text / "valid.xb").read_text("utf-8").splitlines()[20] == "‘mi’ ru"  # for scoring
    settings = TextSettings.load(data_bin)
    assert settings.normalise and settings.encode_source("“ka”") == settings.encode_source('"ka"')
    words = ("--vocab-size", "--out")
    again = [word for at, word in enumerate(own) if {word, own[at - 1]}.isdisjoint(words)]
    model = data_bin / "spm.model"
    prepare(*again, *options, "--subword-model", model, "--out", tmp_path / "again")
    same = data(tmp_path / "again")
    assert {name: bytes_ for name, bytes_ in data(tmp_path / "out").items() if name in same} == same
    assert any(name.endswith(".bin") for name in same)


def test_the_subwords_of_other_data_bring_their_dictionary(tmp_path, own):
    """A model of the first data reads the second: each number is the same word."""
    prepare(*own, "--out", tmp_path / "first")
    first = tmp_path / "first" / "data-bin"
    write_pairs(tmp_path, "few", ("xa", "xb"), pairs_of(150, 1)[:9] * 40)
    again = [*own[:6], tmp_path / "few", *own[7:11]]
    alone, found = shutil.copy(first / "spm.model", tmp_path), {}
    for name, model in (("kept", first / "spm.model"), ("new", alone)):
        out = tmp_path / name
        prepare(*again, "--workers", 1, "--subword-model", model, "--out", out)
        found[name] = (out / "data-bin" / "dict.xa.txt").read_bytes()
        trained_on = lines_of(out / "data-bin", "train", "xa-xb", "xa")
        assert trained_on[:9] == lines_of(first, "train", "xa-xb", "xa")[:9]
    assert found["kept"] == (first / "dict.xa.txt").read_bytes() != found["new"]
    pieces = ("--workers", 1, "--subword-model", first / "spm.model", "--pieces")
    prepare(*again, *pieces, "--out", tmp_path / "pieces")
    assert (tmp_path / "pieces" / "pieces" / "dict.txt").read_bytes() == found["kept"]


def test_a_dry_run_prints_commands_that_give_the_same_data(tmp_path, own):
    prepare(*own, "--out", tmp_path / "out", "--drop-duplicates", "--character-coverage", 0.99)
    limited = ("--out", tmp_path / "dry run", "--drop-duplicates", "--character-coverage", 0.99)
    commands = [shlex.split(line) for line in prepare(*own, *limited, "--dry-run").out.splitlines()]
    assert not (tmp_path / "dry run").exists()
    assert [words[0] for words in commands] == ["resmlp-mt", "fairseq-preprocess", "cp"]
    assert resmlp(*commands[0][1:]).status == 0
    call("preprocess", *commands[1][1:])
    for path in commands[2][1:-1]:
        shutil.copy(path, commands[2][-1])
    made, expected = (tmp_path / name / "data-bin" for name in ("dry run", "out"))
    (made / "preprocess.log").unlink()
    assert data(made) == data(expected)
    pieces = (tmp_path / "dry run" / "pieces" / "valid.xa").read_text("utf-8").splitlines()
    subwords = Subwords(made / "spm.model")
    assert pieces[:20] == [subwords.encode(source) for source, _ in pairs_of(20, 2)]
    fails("was not made by this command: delete it", *own, *limited)


def test_a_recipe(tmp_path, text):
    found = prepare(*from_text(tmp_path, text))
    assert "one: 153 pairs read, dropped: 1 empty, 1 invalid-utf8\n" in found.out
    assert "two: 100 pairs read, dropped: 10 duplicate\n" in found.out
    dropped = int(re.search(r"all: 241 pairs encoded, dropped: (\d+) length-ratio\n", found.out)[1])
    assert f"train {241 - dropped}, valid 20, test 20 pairs, " in found.out
    assert "test1.eng has 20 lines, the whole test set 3003" in found.err
    out = tmp_path / "out"
    assert there(out) == ["data-bin", "manifest.json", "subwords", "text"]
    train = read_parallel(out / "text" / "train.en", out / "text" / "train.de")
    assert len(train) == len(set(train)) == 241
    for split, count in (("train", 241 - dropped), ("valid", 20), ("test", 20)):
        for side in ("en", "de"):
            assert len(lines_of(out / "data-bin", split, "en-de", side)) == count
    for ours, its in (("valid.en", "dev.eng"), ("test.de", "test1.deu")):
        assert (out / "text" / ours).read_bytes() == (text / its).read_bytes()
    manifest = json.loads((out / "manifest.json").read_text())
    assert (manifest["normalise"], manifest["max_ratio"], manifest["vocab_size"]) == (True, 1.5, 90)


def test_the_same_from_any_number_of_workers_and_made_once(tmp_path, text, monkeypatch):
    first = prepare(*from_text(tmp_path, text, out="1"))
    again = prepare(*from_text(tmp_path, text, out="1"))
    assert "1 is complete: nothing to do" in again.err and again.out == first.out
    monkeypatch.setattr(corpora, "CHUNK_LINES", 20)
    prepare(*from_text(tmp_path, text, "--workers", 3, out="3"))
    assert data(tmp_path / "1") == data(tmp_path / "3")


def kill_within(step, patch):
    """Have this process killed in the middle of a step, when some of it is written."""

    def kill(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    if step == "text":
        patch.setattr(cleaning, "_drop_duplicates", kill)
    elif step == "subwords":
        patch.setattr("resmlp_mt.prepare.vocabulary.Subwords", kill)
    else:
        patch.setattr(encoding.DataWriter, "finish", kill)


@pytest.mark.parametrize("step", STEPS)
def test_killed_in_a_step_and_started_again(tmp_path, text, monkeypatch, step):
    prepare(*from_text(tmp_path, text, out="whole"))
    kill_within(step, monkeypatch)
    killed = Forked(lambda: resmlp(*from_text(tmp_path, text)), tmp_path / "log")
    assert killed.wait(60) == -signal.SIGKILL
    monkeypatch.undo()
    assert f"{step}.partial" in there(tmp_path / "out")
    assert any((tmp_path / "out" / f"{step}.partial").iterdir())
    prepare(*from_text(tmp_path, text))
    assert data(tmp_path / "out") == data(tmp_path / "whole")


@pytest.mark.parametrize("step, allowed", [("text", 5000), ("subwords", 900), ("data-bin", 3000)])
def test_a_disk_that_is_full_in_any_step(tmp_path, text, monkeypatch, step, allowed):
    """The system's own limit on the size of files, in a step that has begun."""
    whole = resource.getrlimit(resource.RLIMIT_FSIZE)
    name = {"text": "clean", "subwords": "learn_subwords", "data-bin": "encode"}[step]
    make = getattr(steps, name)

    def limited(*arguments):
        resource.setrlimit(resource.RLIMIT_FSIZE, (allowed, whole[1]))
        try:
            return make(*arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, whole)

    prepare(*from_text(tmp_path, text, out="whole"))
    with monkeypatch.context() as patch:
        patch.setattr(steps, name, limited)
        said = "is the disk full?" if step == "subwords" else f"{step}.partial: File too large"
        fails(said, *from_text(tmp_path, text))
    assert there(tmp_path / "out") == sorted(["manifest.json", *STEPS[: STEPS.index(step)]])
    prepare(*from_text(tmp_path, text))
    assert data(tmp_path / "out") == data(tmp_path / "whole")


def test_results_of_other_options(tmp_path, text):
    prepare(*from_text(tmp_path, text))
    before = data(tmp_path / "out")
    said = "holds results made with limit = null, not 9: choose another folder"
    fails(said, *from_text(tmp_path, text, "--limit", 9))
    write_side(text / "train-parts" / "two.deu", ["other"] * 100)
    fails("made with text of train1 = ", *from_text(tmp_path, text))
    assert data(tmp_path / "out") == before


@pytest.mark.parametrize(
    "words, said",
    [
        ("--recipe wmt14-en-ru", "--recipe wmt14-en-ru: unknown recipe: choose wmt14-en-de or"),
        ("{own} --limit 0", "--limit: must be at least 1"),
        ("{own} --max-pieces 0", "--max-pieces: must be at least 1"),
        ("{own} --vocab-size 70000", "--vocab-size: 70000 pieces: at most 65000"),
        ("{own} --max-ratio nan", "--max-ratio: must be a number"),
        ("{own} --character-coverage 0.97", "--character-coverage 0.97: must be from 0.98 to 1"),
        ("{own} --max-ratio 0.5", "--max-ratio 0.5: must be 0 or at least 1"),
        ("{own} --seed -1", "--seed: must be from 0 to 4294967295, not -1"),
        ("{text} --source-lang xa.b", "xa.b: the name of a language has no dot"),
        ("{own} --subword-model no", "--subword-model and --vocab-size: give one or the other"),
        (
            "{text} --subword-model no --character-coverage 0.99",
            "--subword-model and --character-coverage: give one or the other",
        ),
        ("{text} --subword-model no", "no is not a SentencePiece model"),
        ("{text} --from no", "--from no: give --recipe with it"),
        ("{text} --recipe wmt14-en-de", "--recipe and --trainpref: give one or the other"),
        ("{text} --validpref no", "no.xa is missing"),
        ("{text} --source-lang xb", "--source-lang and --target-lang are both xb"),
        ("--source-lang xa --target-lang xb", "--trainpref is missing: give it, or a --recipe"),
    ],
)
def test_bad_options_leave_nothing_behind(tmp_path, own, words, said):
    own = " ".join(map(str, own[1:]))
    words = words.format(own=own, text=own.partition(" --vocab-size")[0])
    refused(said, "prepare", *words.split(), "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_text_that_does_not_do(tmp_path, text, own):
    said = "--vocab-size 30000 is more than this corpus allows: at most "
    fails(said, *from_text(tmp_path, text, "--vocab-size", 30_000))
    # what does not fit is no obstacle to what does
    assert resmlp(*from_text(tmp_path, text, "--vocab-size", 200)).status == 0
    empty = write_layout(tmp_path / "empty", TAGS, {"a": [("", "x"), ("y", "")]})
    fails("no training pair is left", *from_text(tmp_path, empty, out="other"))
    (tmp_path / "own" / "documents").mkdir()
    fails("holds folders of something else", *own, "--out", tmp_path / "own")
