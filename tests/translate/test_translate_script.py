"""scripts/translate.py: fairseq's translations, one line a line, in order, whole or not at all."""

import gzip
import io
import os
import signal
import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch
import translate as script
from cli import call, train

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.text.subwords import Subwords, train_subwords
from resmlp_mt.translate.shards import Here, Shards
from resmlp_mt.translate.source_text import SourceText
from resmlp_mt.translate.translator import Translator


@pytest.fixture(scope="session")
def prepared(corpus, tmp_path_factory):
    """The tiny corpus in subwords, in folders like prepare.py's, and a model trained on it."""
    root = tmp_path_factory.mktemp("prepared")
    (root / "subwords").mkdir()
    text = {path.name: path.read_text().splitlines() for path in corpus.text.iterdir()}
    model = train_subwords(text["train.xx"] + text["train.yy"], root / "subwords" / "spm", 50)
    subwords = Subwords(model)
    for name, lines in text.items():
        (root / name).write_text("".join(f"{subwords.encode(line)}\n" for line in lines))
    call(
        *("preprocess", "--source-lang", "xx", "--target-lang", "yy", "--joined-dictionary"),
        *("--destdir", root / "data-bin", "--workers", 1),
        *(word for split in corpus.sizes for word in (f"--{split}pref", root / split)),
    )
    options = ("--batch-size", 8, "--max-epoch", 8, "--save-interval", 8)
    train(root / "data-bin", root / "model", *options)
    return SimpleNamespace(
        root=root,
        data=root / "data-bin",
        spm=model,
        path=root / "model" / "checkpoint_last.pt",
        source=corpus.text / "test.xx",
        lines=text["test.xx"],
    )


@pytest.fixture
def run(prepared, monkeypatch, capsys):
    """Run the script; gives its exit status and what it printed to either stream."""

    def run(source, output, *more, stdin=b"", checkpoint=prepared.path):
        arguments = ["--checkpoint", checkpoint, "--data", prepared.data, "--input", source]
        arguments += ["--output", output, "--no-normalise", *more]
        monkeypatch.setattr("sys.argv", ["translate.py", *map(str, arguments)])
        stdout = io.TextIOWrapper(io.BytesIO(), "utf-8")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        monkeypatch.setattr(sys, "stdout", stdout)
        status = run_main(script.main)
        return status, stdout.buffer.getvalue().decode(), capsys.readouterr().err

    return run


def last_line(err):
    return err.strip().splitlines()[-1]


def refused(result, said):
    status, out, err = result
    message = last_line(err)
    assert status == 1 and out == "" and "Traceback" not in err
    assert message.startswith("translate.py: error: ") and said in message, message


def by_fairseq(name, *arguments, stdin=""):
    """Detokenized translations of fairseq-generate or fairseq-interactive, by line."""
    arguments = (*arguments, "--beam", 4, "--lenpen", 0.6, "--cpu", "--num-workers", 0)
    out = call(name, *arguments, stdin=stdin).out
    found = dict(line[2:].split("\t")[::2] for line in out.splitlines() if line.startswith("D-"))
    return [found[str(number)] for number in range(len(found))]


def test_what_fairseq_translates(prepared, run, tmp_path):
    """The test set by fairseq-generate, the same text by fairseq-interactive."""
    remove = ("--remove-bpe", "sentencepiece")
    expected = by_fairseq("generate", prepared.data, "--path", prepared.path, *remove)
    interactive = ("--bpe", "sentencepiece", "--sentencepiece-model", prepared.spm)
    text = prepared.source.read_text()
    assert expected == by_fairseq(
        *("interactive", prepared.data, "--path", prepared.path, *interactive), stdin=text
    )
    status, _, err = run(prepared.source, tmp_path / "out")
    assert status == 0 and "11 sentences in" in err
    assert (tmp_path / "out").read_text().splitlines() == expected
    assert len(set(expected)) > 3 and not list(tmp_path.glob("*.partial"))
    # other search, other translations
    assert run(prepared.source, tmp_path / "greedy", "--beam", 1, "--max-len-b", 3)[0] == 0
    assert (tmp_path / "greedy").read_text().splitlines() != expected


def test_the_transformer_baseline(prepared, run, tmp_path):
    options = ("--arch", "transformer", "--encoder-attention-heads", 2, "--optimizer", "adam")
    short = ("--batch-size", 8, "--max-epoch", 2, "--save-interval", 2)
    train(prepared.data, tmp_path, *options, *short, "--share-all-embeddings")
    path = tmp_path / "checkpoint_last.pt"
    remove = ("--remove-bpe", "sentencepiece")
    expected = by_fairseq("generate", prepared.data, "--path", path, *remove)
    assert run(prepared.source, tmp_path / "out", checkpoint=path)[0] == 0
    assert (tmp_path / "out").read_text().splitlines() == expected


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


def test_one_line_a_line_in_order(prepared, run, tmp_path):
    """Lines that hold what others call line ends; small batches, longest first."""
    alone = []
    for line in ODD:
        status, out, _ = run("-", "-", stdin=f"{line}\n".encode())
        assert status == 0 and out.count("\n") == 1
        alone.append(out[:-1])
    assert [bool(line.strip()) for line in ODD] == [bool(line) for line in alone]
    text = "\n".join(ODD) + "\n"  # with \r\n in a file the \r would go
    status, out, err = run("-", "-", "--max-tokens", 16, stdin=text.encode())
    assert status == 0 and out.split("\n") == [*alone, ""]
    assert "7 sentences in" in err and "3 lines without a word, 0 cut off" in err
    # the last line without its end, in a gzip file
    with gzip.open(tmp_path / "in.gz", "wb") as file:
        file.write(text[:-1].encode())
    assert run(tmp_path / "in.gz", tmp_path / "out")[0] == 0
    assert (tmp_path / "out").read_bytes().decode() == out
    assert run("-", "-", stdin=b"\n \n")[:2] == (0, "\n\n")


def test_lines_that_are_too_long(prepared, run, tmp_path):
    long = " ".join(["w01"] * 100)
    text = f"w02\n{long}\nw03\n{long}\n".encode()
    refused(run("-", tmp_path / "out", stdin=text), "standard input, line 2: ")
    _, _, err = run("-", tmp_path / "out", stdin=text)
    assert "but the model takes 31 (2 such lines)" in err and "--truncate" in err
    assert not (tmp_path / "out").exists()
    status, out, err = run("-", "-", "--truncate", stdin=text)
    assert status == 0 and out.count("\n") == 4 and "2 cut off" in err
    pieces = Subwords(prepared.spm).encode(long).split()[:31]
    begin = "".join(pieces).replace("▁", " ").strip()
    assert run("-", "-", stdin=f"{begin}\n".encode())[1] == out.split("\n")[1] + "\n"


def test_normalised_like_the_training_text(prepared, tmp_path):
    """Punctuation and invisible characters, unless it is switched off."""
    (tmp_path / "in").write_text("w01\u00ad «w02» … w03\n", encoding="utf-8")
    text = SourceText(tmp_path / "in", prepared.spm)
    pieces = []
    for language in ("fr", None):
        text.encode(language)
        pieces.append("".join(text.pieces[0]).replace("▁", " ").strip())
    assert pieces == ['w01 "w02" ... w03', "w01\u00ad «w02» ... w03"]


def test_another_vocabulary_is_remarked_on(prepared, run, tmp_path):
    other = train_subwords(["a bc def", "ghij klmno"], tmp_path / "other", 25)
    _, _, err = run(prepared.source, "-", "--spm", other)
    assert "of the pieces are not in the dictionary" in err
    assert "dictionary" not in run(prepared.source, "-")[2]


def test_bad_input_writes_nothing(prepared, run, tmp_path):
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "latin1").write_bytes(b"w01\nw\xe92\n")
    (bad / "empty").write_bytes(b"")
    with gzip.open(bad / "cut.gz", "wb") as file:
        file.write(b"w01 w02\n" * 1000)
    (bad / "cut.gz").write_bytes((bad / "cut.gz").read_bytes()[:-9])
    (bad / "cut.pt").write_bytes(prepared.path.read_bytes()[:5000])
    out, source = tmp_path / "out", prepared.source
    refused(run(bad / "latin1", out), "latin1, line 2: invalid UTF-8")
    refused(run(bad / "empty", out), "empty: empty file")
    refused(run(bad / "cut.gz", out), "cut.gz: damaged gzip file")
    refused(run(bad / "none", out), "none: No such file")
    refused(run(source, out, checkpoint=bad / "cut.pt"), "cut.pt is damaged")
    refused(run(source, out, checkpoint=bad / "none.pt"), "none.pt")
    refused(run(source, out, "--spm", bad / "none.model"), "none.model: no such file")
    refused(run(source, out, "--spm", source), "is not a SentencePiece model")
    refused(run(source, bad), "bad is a folder")
    refused(run(source, bad / "no" / "out"), "has no folder")
    refused(run(source, bad / "out.gz"), "leave off .gz")
    refused(run(source, out, "--beam", 0), "--beam 0: must be at least 1")
    refused(run(source, out, "--model-overrides", "{"), "--model-overrides {")
    refused(run(source, out, "--fp16"), "--fp16: needs a GPU")
    refused(run("-", out, stdin=b"w01\n\xff\n"), "standard input, line 2: invalid UTF-8")
    assert not out.exists() and sorted(path.name for path in tmp_path.iterdir()) == ["bad"]


def test_a_disk_that_is_full(prepared, run, tmp_path, monkeypatch):
    def full(source, target):
        assert source.read_text()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("resmlp_mt.text.lines.os.replace", full)
    refused(run(prepared.source, tmp_path / "out"), "could not be written: No space left")
    assert not list(tmp_path.iterdir())


def test_shards(prepared):
    """Two processes say what one does; when one dies, the command ends and names it."""
    load = partial(
        Translator,
        checkpoints=[prepared.path],
        data=prepared.data,
        generation={"beam": 4, "lenpen": 0.6},
        max_tokens=24,
    )
    cpu = torch.device("cpu")
    text = SourceText(prepared.source, prepared.spm)
    text.encode(None)
    batches = [[text.pieces[line] for line in batch] for batch in text.batches(24)]
    assert len(batches) > 4
    with Here(load, cpu) as one:
        expected = dict(one.answers(batches))
        # in the order of the batch, which need not be by length
        backwards = [batch[::-1] for batch in batches]
        assert dict(one.answers(backwards)) == {n: x[::-1] for n, x in expected.items()}
    with Shards(load, [cpu, cpu], 1, script.DIED) as two:
        assert two.about == one.about == (32, "xx")
        assert dict(two.answers(batches)) == expected
        assert dict(two.answers(batches[:1])) == {0: expected[0]}
        os.kill(two._processes[1].pid, signal.SIGSTOP)
        answers = two.answers(batches)
        next(answers)
        two._processes[1].kill()
        with pytest.raises(UserError, match=r"shard 2 of 2 \(cpu\) was killed by signal 9"):
            dict(answers)
    assert not any(process.is_alive() for process in two._processes)


def test_every_line_is_in_one_batch(prepared, tmp_path):
    """Also where their number is no multiple of 8, and for a line longer than --max-tokens."""
    (tmp_path / "in").write_text("".join("w01 " * (number % 9) + "\n" for number in range(103)))
    text = SourceText(tmp_path / "in", prepared.spm)
    text.encode(None)
    batches = text.batches(8)
    lines = [line for batch in batches for line in batch]
    assert sorted(lines) == text.wanted and len(lines) == 103 - 12
    lengths = [len(text.pieces[line]) for line in lines]
    assert lengths == sorted(lengths, reverse=True)
