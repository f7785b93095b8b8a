"""resmlp-mt score: what it prints and writes, and what it refuses in one line."""

import gzip
import os
import subprocess
import sys

import pytest
from command import refused, resmlp
from fairseq_programs import ROOT, generate
from score_text import drop_words, sentences

from resmlp_mt.files import read_json
from resmlp_mt.score.evaluation import TABLE_5
from resmlp_mt.score.sacre import paired, score
from resmlp_mt.score.tokenized_bleu import tokenized_scores

REFERENCES = sentences(60)
SYSTEM, BASELINE = drop_words(REFERENCES, 1), drop_words(REFERENCES, 3)
MARK = b"\xef\xbb\xbf"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """ref, ref.gz, src, hyp, base and others that cannot be scored, in the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(name, lines):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    write("ref", REFERENCES)
    (tmp_path / "ref.gz").write_bytes(gzip.compress((tmp_path / "ref").read_bytes()))
    write("src", [f"{line} {line}" for line in REFERENCES])
    write("hyp", SYSTEM)
    write("base", BASELINE)
    write("short", SYSTEM[:59])
    (tmp_path / "empty").touch()
    (tmp_path / "latin").write_bytes(b"ein\nStra\xdfe\n")
    (tmp_path / "cut.gz").write_bytes((tmp_path / "ref.gz").read_bytes()[:200])
    return tmp_path


def rows(out):
    """The words of each printed line."""
    return [line.split() for line in out.splitlines()]


def test_one_system(folder):
    status, out, err = resmlp("score", "--references", "ref.gz", "-i", "hyp")
    scores = score(SYSTEM, REFERENCES)
    assert status == 0 and not err
    head, _, system, _, bleu, chrf = rows(out)
    assert head == ["BLEU", "chrF"]
    assert system == ["hyp", f"{scores['bleu']:.2f}", f"{scores['chrf']:.2f}"]
    assert bleu == ["BLEU", scores["bleu_signature"]]
    assert chrf == ["chrF", scores["chrf_signature"]]


def test_systems_side_by_side_with_several_references(folder):
    command = ["score", "--references", "ref", "src", "-i", "base", "hyp", "-m", "ter", "bleu"]
    status, out, _ = resmlp(*command, "-tok", "char")
    assert status == 0 and rows(out)[0] == ["TER", "BLEU"]
    for name, lines in (("base", BASELINE), ("hyp", SYSTEM)):
        both = [REFERENCES, [f"{line} {line}" for line in REFERENCES]]
        scores = score(lines, both, None, ("ter", "bleu"), "char")
        assert [name, f"{scores['ter']:.2f}", f"{scores['bleu']:.2f}"] in rows(out)
        assert "nrefs:2" in scores["bleu_signature"] and scores["bleu_signature"] in out


@pytest.mark.parametrize(
    "pair, split, best",
    [("en-de", True, "26.8"), ("en-fr", False, "40.6"), ("fr-de_AT", True, "")],
)
def test_tokenized_bleu(folder, pair, split, best):
    """With compounds split for German, and Table 5 of the paper beside it for its pairs."""
    command = ["score", "--references", "ref", "-i", "hyp", "-l", pair]
    status, out, _ = resmlp(*command, "--tokenized")
    assert status == 0 and f"tok:moses-{pair[3:5]}" in out
    assert ("compound-split BLEU" in out) == split
    assert ("newstest2014 has 3,003" in out) == bool(best)
    assert (f"Table 5 of the paper, {pair}" in out) == bool(best)
    if best:
        table = rows(out[out.index("Table 5") :])
        name = "compound_split_bleu" if split else "tokenized_bleu"
        bleu = f"{tokenized_scores(SYSTEM, REFERENCES, pair[3:])[name]:.2f}"
        assert ["hyp", bleu] in table and ["ResMLP-12", "(paper)", best] in table
    assert "tokenized" not in resmlp(*command).out


def test_everything_at_once(folder, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "3")
    status, out, err = resmlp(
        *("score", "--references", "ref.gz", "-i", "base", "hyp", "-l", "en-de", "--tokenized"),
        *("--paired-bs", "--paired-bs-n", 50, "--json", "a.json"),
    )
    result = read_json(folder / "a.json")
    assert status == 0 and not err
    assert result["references"] == ["ref.gz"] and result["sentences"] == 60
    assert result["paper"] == TABLE_5["en-de"]
    names = ["bleu", "chrf", "tokenized_bleu", "compound_split_bleu"]
    assert list(result["signatures"]) == list(result["systems"]["hyp"]) == names
    assert result["systems"]["hyp"]["bleu"] == score(SYSTEM, REFERENCES)["bleu"]
    systems = {"base": BASELINE, "hyp": SYSTEM}
    assert result["paired"] == paired(systems, REFERENCES, samples=50)
    p_value = result["paired"]["systems"]["hyp"]["bleu"]["p_value"]
    assert "Paired bootstrap against base" in out and f"{p_value:.4f}" in out
    assert "bs:50|seed:3" in out


@pytest.mark.parametrize("words, read", [((), "hyp"), (("-i", "-"), "hyp"), (("-i", "hyp"), "ref")])
def test_standard_input(folder, words, read):
    stdin = (folder / read).read_bytes()
    references = "-" if read == "ref" else "ref"
    status, out, _ = resmlp("score", "--references", references, *words, stdin=stdin)
    from_files = resmlp("score", "--references", "ref", "-i", "hyp").out
    name = "hyp" if read == "ref" else "standard input"
    assert status == 0
    assert out.splitlines()[2].removeprefix(name).split() == rows(from_files)[2][1:]


def test_a_byte_order_mark_is_no_text(folder):
    (folder / "marked").write_bytes(MARK + (folder / "ref").read_bytes())
    for words in (
        ("--references", "marked", "-i", "ref"),
        ("--references", "ref", "-i", "marked"),
        ("--references", "ref"),
        ("--references", "marked", "-i", "marked"),
    ):
        status, out, _ = resmlp("score", *words, stdin=(folder / "marked").read_bytes())
        assert status == 0 and "100.00" in out


REF = ("--references", "ref")
HYP = (*REF, "-i", "hyp")
REFUSED = [
    ("short has 59 lines but ref has 60", (*REF, "-i", "short")),
    ("hyp has 60 lines but short has 59", ("--references", "short", "-i", "hyp")),
    ("short has 59 lines but ref has 60", ("--references", "ref", "short", "-i", "hyp")),
    ("empty: empty file", (*REF, "-i", "empty")),
    ("empty: empty file", ("--references", "empty", "-i", "hyp")),
    ("missing.gz: No such file", ("--references", "missing.gz", "-i", "hyp")),
    ("cut.gz: damaged gzip", (*REF, "-i", "cut.gz")),
    ("latin, line 2: invalid UTF-8 (byte 5", (*REF, "-i", "latin")),
    ("standard input: empty file", REF),
    ("only one file can be standard input", ("--references", "-", "-i", "-")),
    ("hyp is given twice", (*HYP, "hyp")),
    ("no Moses tokenizer for language 'xx'", (*HYP, "-l", "en-xx", "--tokenized")),
    ("--tokenized needs the languages", (*HYP, "--tokenized")),
    ("one reference", ("--references", "ref", "src", "-i", "hyp", "-l", "en-de", "--tokenized")),
    ("-l: de: give two languages", (*HYP, "-l", "de")),
    ("-l: zh-CN-en: give two languages", (*HYP, "-l", "zh-CN-en")),
    ("no Moses tokenizer for language 'zh'", (*HYP, "-l", "en-zh", "--tokenized")),
    ("-tok moses: no such tokenizer", (*HYP, "-tok", "moses")),
    ("give two or more", (*HYP, "--paired-bs")),
    ("--paired-ar-n: must be at least 1", (*HYP, "base", "--paired-ar", "--paired-ar-n", 0)),
    ("--paired-bs-n: give --paired-bs too", (*HYP, "base", "--paired-bs-n", 5)),
    ("--paired-ar-n: give --paired-ar", (*HYP, "base", "--paired-bs", "--paired-ar-n", 5)),
    ("no/a.json has no folder", (*HYP, "--json", "no/a.json")),
    (". is a folder", (*HYP, "--json", ".")),
    ("hyp is the input", (*HYP, "--json", "hyp")),
]


@pytest.mark.parametrize("said, words", REFUSED, ids=lambda value: " ".join(map(str, value)))
def test_refusals(folder, said, words):
    before = sorted(folder.iterdir())
    refused(said, "score", *words)
    assert sorted(folder.iterdir()) == before


def test_standard_input_that_is_closed(folder):
    command = [sys.executable, "-m", "resmlp_mt", "score", *REF]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    shell = ["bash", "-c", '"$@" <&-', "bash", *command]
    run = subprocess.run(shell, capture_output=True, text=True, env=environment)
    assert run.returncode == 1 and not run.stdout
    assert "standard input is closed: " in run.stderr and run.stderr.count("\n") == 1


def test_bleu_sh(trained, corpus, folder):
    """The script, on what fairseq-generate printed, with the command on the path."""
    (folder / "log").write_text(generate(trained.data, trained.path), encoding="utf-8")
    program = folder / "bin" / "resmlp-mt"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m resmlp_mt "$@"\n')
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    references = corpus.text / "test.yy"
    script = ROOT / "scripts" / "bleu.sh"
    for languages, printed in (([], "chrF"), (["en-de"], "compound-split BLEU")):
        command = ["bash", script, "log", references, *languages]
        run = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert run.returncode == 0 and not run.stderr and printed in run.stdout
        assert ("Table 5" in run.stdout) == bool(languages)
    run = subprocess.run(["bash", script, "log"], capture_output=True, text=True)
    assert run.returncode == 2 and run.stderr.startswith("A log of fairseq-generate to sacreBLEU")
