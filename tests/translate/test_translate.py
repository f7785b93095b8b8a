"""resmlp-mt translate: the translations of fairseq, a line for a line, in order, whole or not at
all, and resumed where they were stopped."""

import gzip
import os
import shutil
import signal
import time
from pathlib import Path
from unittest import mock

import pytest
import torch
from command import refused, resmlp
from fairseq_programs import call, lines, load, train
from processes import Forked

from resmlp_mt.text.settings import FILE, TextSettings
from resmlp_mt.text.subwords import Subwords, train_subwords
from resmlp_mt.translate import driver, parts
from resmlp_mt.translate.translator import by_length

SHORT = ("--max-len-b", 20)


@pytest.fixture
def words(world):
    """The words of the command."""

    def words(source, output, *more, path=world.checkpoint, data=world.data):
        files = ("--path", path, "--data", data, "--input", source, "--output", output)
        return ("translate", *files, *SHORT, "--cpu", *more)

    return words


@pytest.fixture
def run(words):
    """Run the command; gives its exit status and what it printed."""

    def run(*arguments, stdin=b"", **more):
        return resmlp(*words(*arguments, **more), stdin=stdin)

    return run


@pytest.fixture
def refuse(words):
    """Assert that the command ends in one line, with *said* in it."""

    def refuse(said, *arguments, stdin=b"", **more):
        refused(said, *words(*arguments, **more), stdin=stdin)

    return refuse


def lines_of(path):
    return Path(path).read_text(encoding="utf-8").splitlines()


@pytest.fixture
def source(world):
    return world.text / "test.xx"


def by_fairseq(world, path, *options):
    """Hypotheses of fairseq-generate for the test set, detokenized, the best first."""
    options = ("--beam", 4, "--cpu", "--num-workers", 0, *SHORT, *options)
    remove = ("--remove-bpe", "sentencepiece")
    out = call("generate", world.data, "--path", path, *remove, *options).out
    return [[text for _, text in found] for _, found in sorted(lines(out, "D").items())]


@pytest.fixture(scope="module")
def transformer(world, tmp_path_factory):
    """fairseq's own model, trained on the same data."""
    folder = tmp_path_factory.mktemp("transformer")
    options = ("--arch", "transformer", "--encoder-attention-heads", 2, "--optimizer", "adam")
    short = ("--batch-size", 8, "--max-epoch", 8, "--save-interval", 8, "--lr", 0.005)
    train(world.data, folder, *options, *short, "--share-all-embeddings")
    return folder / "checkpoint_last.pt"


def test_what_fairseq_translates(world, transformer, run, source, tmp_path):
    """One model, a Transformer, and both as an ensemble; the best and the n best."""
    found = {}
    for path in (world.checkpoint, transformer, f"{world.checkpoint}:{transformer}"):
        expected = by_fairseq(world, path, "--lenpen", 0.6, "--nbest", 3)
        said = run(source, tmp_path / "out", "--nbest", 3, path=path)
        assert said.status == 0 and "11 sentences in" in said.err
        found[path] = lines_of(tmp_path / "out")
        assert found[path] == [line for nbest in expected for line in nbest]
        assert run(source, tmp_path / "out", path=path).status == 0
        assert lines_of(tmp_path / "out") == [nbest[0] for nbest in expected]
    assert len(set(map(tuple, found.values()))) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_search_is_that_of_the_options(world, run, source):
    for options in (
        ("--beam", 1, "--max-len-a", 0.5, "--max-len-b", 3, "--lenpen", 0.6),
        ("--lenpen", 2.0, "--no-repeat-ngram-size", 2),
    ):
        expected = by_fairseq(world, world.checkpoint, *options, "--batch-size", 1)
        # one sentence at a time: A x source is of the longest sentence in the batch
        for line, nbest in list(zip(lines_of(source), expected))[:2]:
            assert run("-", "-", *options, stdin=line.encode()).out == f"{nbest[0]}\n"


ODD = [
    "w01 w02 w03",
    "",
    "w07\rw08",  # a lone carriage return
    "   ",
    "w03\u2028w05 w11",
    "w30 w31 w32 w33",
    "\t",
    "w01 w02 w03",
    "😀",
    "w04\x85w05",
]


def test_one_line_a_line_in_order(run, tmp_path, monkeypatch):
    """Lines that hold what others call line ends; small batches, longest first; small chunks."""
    alone = []
    for line in ODD:
        said = run("-", "-", stdin=f"{line}\n".encode())
        assert said.status == 0 and said.out.count("\n") == 1
        alone.append(said.out[:-1])
    assert [bool(line.strip()) for line in ODD] == [bool(line) for line in alone]
    text = "\n".join(ODD) + "\n"
    monkeypatch.setattr(parts, "CHUNK_LINES", 3)
    said = run("-", "-", "--max-tokens", 16, stdin=text.encode())
    assert said.status == 0 and said.out.split("\n") == [*alone, ""]
    assert "7 sentences in" in said.err and "10 lines, 3 of them without a word" in said.err
    # with a byte order mark, and the last line without its end, in a gzip file
    with gzip.open(tmp_path / "in.gz", "wb") as file:
        file.write(b"\xef\xbb\xbf" + text[:-1].encode())
    assert run(tmp_path / "in.gz", tmp_path / "out").status == 0
    assert (tmp_path / "out").read_bytes().decode() == said.out
    assert run("-", "-", "--nbest", 2, stdin=b"\n \n")[:2] == (0, "\n\n\n\n")


def test_a_pipe_and_a_folder_with_other_files(run, refuse, source, tmp_path):
    """As of bash's <(...), which cannot be read twice. Files of others are not deleted."""
    notes = tmp_path / "out.parts" / "notes.jsonl.gz"
    notes.parent.mkdir()
    notes.write_text("mine")
    ours, theirs = os.pipe()
    os.write(theirs, source.read_bytes())
    os.close(theirs)
    refuse("model.pt", source, tmp_path / "out", path=tmp_path)
    assert run(f"/dev/fd/{ours}", tmp_path / "out").status == 0
    assert (tmp_path / "out").read_text() == run(source, "-").out
    assert [path.name for path in notes.parent.iterdir()] == [notes.name]


def test_lines_that_are_too_long(world, run, refuse, tmp_path):
    long = " ".join(["w01"] * 100)
    text = f"w02\n{long}\nw03\n{long}\n".encode()
    said = "standard input, line 2: 200 pieces, but the model takes 31 (2 such lines)"
    refuse(said, "-", tmp_path / "out", stdin=text)
    assert not list(tmp_path.iterdir())
    said = run("-", "-", "--truncate", stdin=text)
    assert said.status == 0 and said.out.count("\n") == 4 and "2 cut off" in said.err
    pieces = Subwords(world.spm).encode(long).split()[:31]
    begin = "".join(pieces).replace("▁", " ").strip()
    assert run("-", "-", stdin=f"{begin}\n".encode()).out == said.out.split("\n")[1] + "\n"


def test_the_data_says_how_its_text_was_made(world, run, refuse, tmp_path):
    """Normalised where the training text was, and not where nothing says so."""
    data = tmp_path / "data-bin"
    data.mkdir()
    for path in world.data.glob("dict.*"):
        (data / path.name).symlink_to(path)
    refuse("has no files such as", "-", "-", "--spm", world.spm, data=data, stdin=b"w\n")
    index = "train.xx-yy.xx.idx"
    (data / index).symlink_to(world.data / index)
    line, plain = "w01\u00ad «w02» w03\n".encode(), b'w01 "w02" w03\n'
    refuse(f"data-bin has no {FILE}", "-", "-", data=data, stdin=line)
    as_it_is = run("-", "-", "--spm", world.spm, data=data, stdin=line).out
    assert as_it_is == run("-", "-", stdin=line).out
    TextSettings("xx", "yy", True, world.spm).save(data)
    normalised = run("-", "-", data=data, stdin=line).out
    assert normalised == run("-", "-", stdin=plain).out != as_it_is


def test_bad_input_writes_nothing(world, transformer, run, refuse, source, tmp_path):
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "latin1").write_bytes(b"w01\nw\xe92\n")
    (bad / "empty").write_bytes(b"")
    with gzip.open(bad / "cut.gz", "wb") as file:
        file.write(b"w01 w02\n" * 1000)
    (bad / "cut.gz").write_bytes((bad / "cut.gz").read_bytes()[:-9])
    (bad / "cut.pt").write_bytes(world.checkpoint.read_bytes()[:5000])
    state = load(world.checkpoint)
    state["cfg"]["task"].update(source_lang="xx", target_lang="zz")
    torch.save(state, bad / "zz.pt")
    state["cfg"]["task"]["_name"] = "language_modeling"
    torch.save(state, bad / "lm.pt")
    state["cfg"]["task"] = []
    torch.save(state, bad / "no_task.pt")
    state = load(world.checkpoint)
    state["model"].popitem()
    torch.save(state, bad / "unfit.pt")
    foreign = train_subwords([f"quick brown foxes {x}" for x in "abcdefgh"], bad / "foreign", 30)
    out, ours = tmp_path / "out", f"{world.checkpoint}:"
    shutil.copy(source, bad / "own")
    refuse("own is the input", bad / "own", bad / "own")
    option = ("--model-overrides", "{'token_mixing_init_std': 0.1}")
    refuse("--model-overrides token_mixing_init_std: ", source, out, *option, path=transformer)
    both = run(source, tmp_path / "both", *option, path=f"{world.checkpoint}:{transformer}")
    assert both.status == 0  # one of them knows it
    (tmp_path / "both").unlink()
    refuse("latin1, line 2: invalid UTF-8", bad / "latin1", out)
    refuse("standard input, line 2: invalid UTF-8", "-", out, stdin=b"w01\n\xff\n")
    refuse("empty: empty file", bad / "empty", out)
    refuse("cut.gz: damaged gzip file", bad / "cut.gz", out)
    refuse("none: No such file", bad / "none", out)
    refuse("cut.pt is damaged", source, out, path=bad / "cut.pt")
    refuse("none.pt: no such file", source, out, path=bad / "none.pt")
    refuse("its task is language_modeling", source, out, path=bad / "lm.pt")
    refuse("its task is None", source, out, path=bad / "no_task.pt")
    refuse("unfit.pt does not fit the model", source, out, path=bad / "unfit.pt")
    refuse("zz.pt translates xx-zz, but", source, out, path=f"{ours}{bad / 'zz.pt'}")
    other = bad / "other"
    other.mkdir()
    words = (world.data / "dict.xx.txt").read_text().splitlines()
    for language in ("xx", "yy"):
        (other / f"dict.{language}.txt").write_text("\n".join([*words[::-1], ""]))
    shutil.copy(world.checkpoint, other / "model.pt")
    for path in (other, f"{ours}{other}"):
        refuse("other/model.pt was trained with other dictionaries", source, out, path=path)
    refuse("takes a : for the end of a folder", source, out, data=tmp_path / "12:30")
    refuse(f"bad has no {FILE}", source, out, data=bad)
    refuse("bad has no dictionaries", source, out, "--spm", world.spm, data=bad)
    refuse("none.model: No such file", source, out, "--spm", bad / "none.model")
    refuse("is not a SentencePiece model", source, out, "--spm", source)
    refuse("subwords in the dictionary of", source, out, "--spm", foreign)
    refuse("bad is a folder", source, bad)
    refuse("has no folder", source, bad / "no" / "out")
    refuse("leave off .gz", source, bad / "out.gz")
    for options, said in (
        (("--beam", 0), "--beam: must be at least 1, not 0"),
        (("--nbest", 5), "--nbest 5: a search with --beam 4 has no more"),
        (("--lenpen", "nan"), "--lenpen: must be a number, not nan"),
        (("--lenpen", 300), "--lenpen: must be from -10 to 10, not 300"),
        (("--max-len-a", 1e9), "--max-len-a 1e+09: must be at most 1000"),
        (("--max-len-a", -1), "--max-len-a -1.0: must be at least 0"),
        (("--model-overrides", "{"), "--model-overrides {"),
        (("--model-overrides", "{'a': {1}}"), "write it like"),
        (("--model-overrides", "{1: 2}"), "write it like"),
        (("--model-overrides", "{'token_mixing_head': 1}"), "no such option in"),
        (("--model-overrides", "{'normalization': 'int7'}"), "int7"),
        (("--fp16",), "--fp16: needs a GPU"),
        (("--num-shards", 2, "--shard-id", 2), "the id of a shard is a number from 0 to 1"),
    ):
        refuse(said, source, out, *options)
    refuse("jobs cannot share standard input", "-", out, "--num-shards", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


def test_a_disk_that_is_full(run, refuse, source, tmp_path, monkeypatch):
    replace = os.replace

    def full(temporary, path):
        if Path(path).name == "out":
            raise OSError(28, "No space left on device")
        replace(temporary, path)

    monkeypatch.setattr("resmlp_mt.files.os.replace", full)
    refuse("out could not be written: No space left", source, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out.parts"]
    monkeypatch.undo()
    assert "0 sentences in" in run(source, tmp_path / "out").err
    assert len(lines_of(tmp_path / "out")) == 11


LONG = (*SHORT[:1], 5, "--beam", 1)  # many lines in little time


def test_a_killed_run_resumes(world, run, refuse, tmp_path):
    """And while it runs, a second one is refused."""
    many = tmp_path / "many"
    text = (world.text / "train.xx").read_text()
    many.write_text(text * 68)  # 4,148 lines: five chunks
    out, chunks = tmp_path / "out", tmp_path / "out.parts"
    command = ("--path", world.checkpoint, "--data", world.data, "--input", many, "--output", out)
    first = Forked(lambda: resmlp("translate", *command, *LONG, "--cpu"), tmp_path / "log")
    while not list(chunks.glob("*.jsonl.gz")):
        assert first.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.005)
    os.kill(first.pid, signal.SIGSTOP)
    refuse("another process is working in", many, out, *LONG)
    first.kill()
    first.wait(60)
    assert not out.exists() and 0 < len(list(chunks.glob("*.jsonl.gz"))) < 5
    refuse("out.parts holds translations made with lenpen", many, out, *LONG, "--lenpen", 1)
    said = run(many, out, *LONG)
    assert said.status == 0 and int(said.err.split()[0]) in range(4148 - 4 * 1024, 4148)
    assert not chunks.exists()
    assert run(world.text / "train.xx", tmp_path / "once", *LONG).status == 0
    assert out.read_text() == (tmp_path / "once").read_text() * 68


def test_shards_make_one_output(run, refuse, source, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "CHUNK_LINES", 3)
    assert run(source, tmp_path / "whole").status == 0
    first = run(source, tmp_path / "out", "--num-shards", 3, "--shard-id", 2)
    assert "3 sentences in" in first.err and "3 chunks are left to other shards" in first.err
    assert not (tmp_path / "out").exists()
    assert run(source, tmp_path / "out", "--num-shards", 3, "--shard-id", 1).status == 0
    other = ("--num-shards", 3, "--shard-id", 0, "--truncate")
    refuse("out.parts holds translations made with truncate", source, tmp_path / "out", *other)
    # of these chunks one is damaged on the way
    damaged = tmp_path / "out.parts" / "000001.jsonl.gz"
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-12])
    shard = ("--num-shards", 3, "--shard-id", 0)
    refuse("000001.jsonl.gz is damaged: delete it", source, tmp_path / "out", *shard)
    damaged.write_bytes(content)
    last = run(source, tmp_path / "out", *shard)
    assert "0 sentences in" in last.err and "11 lines" in last.err
    assert (tmp_path / "out").read_text() == (tmp_path / "whole").read_text()
    assert not (tmp_path / "out.parts").exists()


def test_a_shard_without_chunks(run, source, tmp_path):
    """It leaves nothing behind. Where the output is there, it does not wait for others."""
    out, shard = tmp_path / "out", ("--num-shards", 2, "--shard-id", 1)
    early = run(source, out, *shard)
    assert "1 chunks are left to other shards" in early.err and not list(tmp_path.iterdir())
    assert run(source, out, *shard[:3], 0).status == 0
    late = run(source, out, *shard)
    assert late.status == 0 and "left" not in late.err
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("shard", [(), ("--num-shards", 2, "--shard-id", 1)])
def test_what_was_killed_before_its_first_chunk(run, source, tmp_path, shard):
    """It leaves the options free. Where another shard has been, it may be at work: they stay."""
    out = tmp_path / "out"

    def killed(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    with mock.patch.object(driver, "search", killed):
        Forked(lambda: run(source, out, *shard), tmp_path / "log").wait(60)
    assert (tmp_path / "out.parts" / "manifest.json").exists()
    other = run(source, out, "--lenpen", 1)
    assert other.status == bool(shard) and ("made with lenpen" in other.err) == bool(shard)


def test_several_processes_give_the_same(run, source, tmp_path):
    assert run(source, tmp_path / "one").status == 0
    several = run(source, tmp_path / "several", "--processes", 2, "--max-tokens", 16)
    assert several.status == 0 and "11 sentences in" in several.err
    assert (tmp_path / "several").read_text() == (tmp_path / "one").read_text()


@pytest.fixture
def overflowing(world, tmp_path):
    """A model whose encoder overflows for sentences with a 9."""
    state = load(world.checkpoint)
    model = state["cfg"]["model"]
    model.share_all_embeddings, model.share_decoder_input_output_embed = False, True
    weight = state["model"]["encoder.embed_tokens.weight"].clone()
    for number, line in enumerate(lines_of(world.data / "dict.xx.txt")):
        if "9" in line.split()[0]:
            weight[number + 4] = 3e38  # behind the four symbols of fairseq
    state["model"]["encoder.embed_tokens.weight"] = weight
    torch.save(state, tmp_path / "overflowing.pt")
    return tmp_path / "overflowing.pt"


# an ensemble and n-gram blocking use the search of fairseq, which names no sentence
searches = pytest.mark.parametrize(
    "ensemble, options", [(False, ()), (False, ("--no-repeat-ngram-size", 2)), (True, ())]
)


@searches
def test_scores_that_are_not_finite(run, refuse, overflowing, world, tmp_path, ensemble, options):
    path = f"{overflowing}:{world.checkpoint}" if ensemble else overflowing
    (tmp_path / "in").write_text("w01 w02\nw09\nw03\nw19 w04\n")
    said = "in, line 2 and 1 more: no translation, because the scores of the model are NaN or inf"
    refuse(said, tmp_path / "in", tmp_path / "out", *options, path=path)
    assert not (tmp_path / "out").exists()
    # the others are there, as they are alone
    with gzip.open(tmp_path / "out.parts" / "000000.jsonl.gz", "rt") as file:
        found = file.read().splitlines()
    alone = run("-", "-", *options, path=path, stdin=b"w01 w02\nw03\n").out.splitlines()
    assert alone[0] in found[0] and alone[1] in found[2] and "scores not finite" in found[3]


@searches
def test_a_lost_sentence_leaves_the_length_limit_of_the_others(
    run, overflowing, world, tmp_path, ensemble, options
):
    """They are searched again without it, and its length does not count."""
    path = f"{overflowing}:{world.checkpoint}" if ensemble else overflowing
    (tmp_path / "in").write_text(f"w01\n{'w09 ' * 14}\n")
    limit = ("--max-len-a", 0.1, "--max-len-b", 1)  # one word for the first, three for the second
    assert run(tmp_path / "in", tmp_path / "out", *limit, *options, path=path).status == 1
    with gzip.open(tmp_path / "out.parts" / "000000.jsonl.gz", "rt") as file:
        first, second = file.read().splitlines()
    assert "length limit" in first and "scores not finite" in second


def test_batches_by_length():
    lengths = [3, 9, 1, 4, 4, 30]
    assert by_length([0, 1, 2, 3, 4], lengths, 12) == [[1], [3, 4, 0], [2]]
    assert by_length([0, 1, 2, 3, 4, 5], lengths, 12) == [[5], [1, 3, 4], [0, 2]]
    assert by_length([], lengths, 12) == []
    # no line is lost where their number is not a multiple of 8
    batches = by_length(range(103), [n % 9 + 1 for n in range(103)], 8)
    assert sorted(line for batch in batches for line in batch) == list(range(103))
