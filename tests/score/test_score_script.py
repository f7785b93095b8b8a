"""scripts/score.py: what it prints and writes, and what it refuses in one line."""

import gzip
import io
import re
from types import SimpleNamespace

import pytest
import score
from score_text import drop_words, generate_log, sentences

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.files import read_json
from resmlp_mt.score.scoring import score as sacrebleu_scores
from resmlp_mt.score.table5 import TABLE_5
from resmlp_mt.score.tokenized_bleu import tokenized_bleu

REFERENCES = sentences(60)
SYSTEM, BASELINE = drop_words(REFERENCES, 1), drop_words(REFERENCES, 3)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """ref.gz, src, hyp, base, gen.log and others that are no good, in the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(name, lines):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    write("ref", REFERENCES)
    with gzip.open(tmp_path / "ref.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(REFERENCES) + "\n")
    write("src", [f"{line} {line}" for line in REFERENCES])
    write("hyp", SYSTEM)
    write("base", BASELINE)
    write("short", SYSTEM[:59])
    (tmp_path / "gen.log").write_text(generate_log(SYSTEM), encoding="utf-8")
    (tmp_path / "base.log").write_text(generate_log(BASELINE), encoding="utf-8")
    (tmp_path / "cut.log").write_text(generate_log(SYSTEM)[:4000], encoding="utf-8")
    (tmp_path / "empty").touch()
    (tmp_path / "latin").write_bytes(b"ein\nStra\xdfe\n")
    (tmp_path / "cut.gz").write_bytes((tmp_path / "ref.gz").read_bytes()[:200])
    (tmp_path / "plain.gz").write_text("no gzip\n")
    return tmp_path


@pytest.fixture
def run(monkeypatch, capsys, folder):
    """Runs the script's main: (exit status, standard output, standard error)."""

    def run(*arguments, stdin=None):
        monkeypatch.setattr("sys.argv", ["score.py", *map(str, arguments)])
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        status = run_main(score.main)
        return status, *capsys.readouterr()

    return run


def test_two_scores_without_a_language(run):
    status, out, err = run("--hypotheses", "hyp", "--references", "ref.gz")
    scores = sacrebleu_scores(SYSTEM, REFERENCES)
    assert status == 0 and not err
    assert out == (
        f"BLEU {scores['bleu']:6.2f}  {scores['bleu_signature']}\n"
        f"chrF {scores['chrf']:6.2f}  {scores['chrf_signature']}\n"
    )


@pytest.mark.parametrize(
    "pair, option, metric, split",
    [
        ("en-de", ("--pair", "en-de"), "tokenized BLEU, compounds split", True),
        ("en-de", ("--lang", "de"), "tokenized BLEU, compounds split", True),
        ("en-fr", ("--pair", "en-fr"), "tokenized BLEU", False),
    ],
)
def test_tokenized_bleu_beside_the_papers(run, pair, option, metric, split):
    status, out, _ = run("--generated", "gen.log", "--references", "ref", *option)
    bleu = f"{tokenized_bleu(SYSTEM, REFERENCES, pair[3:], split):.2f}"
    lines = out.splitlines()
    assert status == 0
    assert [line.split()[-2] for line in lines if line.startswith(f"{metric} ")] == [bleu]
    header = next(line for line in lines if line.endswith("ResMLP-12"))
    row = next(line for line in lines if line.startswith(pair))
    assert re.split("  +", header.strip()) == ["this", *TABLE_5[pair]]
    assert row.split() == [pair, bleu, *map(str, TABLE_5[pair].values())]
    assert f"Table 5, {metric} on newstest2014" in out and "60 sentences" in out


def test_table_5():
    systems = ("GNMT", "ConvS2S", "Transformer (base)", "ResMLP-6", "ResMLP-12")
    assert list(TABLE_5) == ["en-de", "en-fr"]
    assert TABLE_5["en-de"] == dict(zip(systems, (24.6, 25.2, 27.3, 26.4, 26.8)))
    assert TABLE_5["en-fr"] == dict(zip(systems, (39.9, 40.5, 38.1, 40.3, 40.6)))


def test_a_pair_without_a_row_in_the_paper(run):
    status, out, _ = run("--hypotheses", "hyp", "--references", "ref", "--pair", "fr-de")
    assert status == 0 and "compounds split" in out and "Table 5" not in out
    status, out, _ = run("--hypotheses", "hyp", "--references", "ref", "--lang", "cs")
    assert status == 0 and "tok:moses-cs" in out and "compounds" not in out


@pytest.mark.parametrize("baseline", ["base", "base.log"])
def test_everything_at_once(run, folder, baseline):
    status, out, err = run(
        *("--generated", "gen.log", "--references", "ref.gz", "--pair", "en-de"),
        *("--baseline", baseline, "--samples", 50, "--seed", 3),
        *("--by-length", "a.svg", "--source", "src", "--edges", 10, 20, 30),
        *("--json", "a.json"),
    )
    result = read_json(folder / "a.json")
    assert status == 0 and not err
    assert "<svg" in (folder / "a.svg").read_text(encoding="utf-8")
    assert result["sentences"] == 60 and result["paper"]["bleu"] == TABLE_5["en-de"]
    test = result["paired_bootstrap"]
    assert (test["samples"], test["seed"]) == (50, 3)
    assert test["bleu"]["system"] == pytest.approx(result["bleu"], abs=0.01)
    base = sacrebleu_scores(BASELINE, REFERENCES)
    assert test["bleu"]["baseline"] == pytest.approx(base["bleu"], abs=0.01)
    rows = result["by_length"]["system"]
    assert len(rows) == len(result["by_length"]["baseline"]) == 4
    assert rows[1]["bleu"] > result["by_length"]["baseline"][1]["bleu"]
    # a source sentence is two references long here
    words = [2 * len(line.split()) for line in REFERENCES]
    assert rows[0]["sentences"] == sum(count <= 10 for count in words) > 0
    printed = [line.split() for line in out.splitlines()]
    assert ["0-10", str(rows[0]["sentences"]), f"{rows[0]['bleu']:.2f}"] in [
        line[:3] for line in printed
    ]
    assert "50 samples, seed 3" in out and "words of the source" in out
    of_baseline = next(line for line in printed if line[:1] == [baseline])
    assert of_baseline[1] == f"{test['bleu']['baseline']:.2f}"
    assert (
        next(line for line in printed if line[:1] == ["p"])[1] == f"{test['bleu']['p_value']:.4f}"
    )


@pytest.mark.parametrize(
    "given",
    [
        ("--hypotheses", "-", "--references", "ref"),
        ("--generated", "-", "--references", "ref"),
        ("--hypotheses", "hyp", "--references", "-"),
        ("--hypotheses", "hyp", "--references", "ref", "--baseline", "-"),
    ],
)
def test_standard_input(run, folder, given):
    option = given[given.index("-") - 1]
    file = {"--hypotheses": "hyp", "--generated": "gen.log", "--references": "ref"}.get(option)
    stdin = (folder / (file or "base.log")).read_bytes()
    status, out, err = run(*given, "--samples", 5, stdin=stdin)
    _, from_files, _ = run("--hypotheses", "hyp", "--references", "ref")
    assert status == 0 and not err and out.startswith(from_files)
    if "--baseline" in given:
        assert f"{sacrebleu_scores(BASELINE, REFERENCES)['bleu']:.2f}" in out


REF = ("--references", "ref")
HYP = ("--hypotheses", "hyp", *REF)
REFUSED = [
    (("--hypotheses", "short", *REF), ["short: 59 hypotheses", "ref: 60 references"]),
    (
        ("--hypotheses", "hyp", "--references", "short"),
        ["hyp: 60 hypotheses", "short: 59 references"],
    ),
    (("--generated", "gen.log", "--references", "short"), ["gen.log: 60 hypotheses", "short: 59"]),
    ((*HYP, "--baseline", "short"), ["short: 59 hypotheses", "ref: 60 references"]),
    ((*HYP, "--by-length", "a.png", "--source", "short"), ["short: 59 sources", "ref: 60"]),
    (("--hypotheses", "empty", *REF), ["empty: empty file"]),
    (("--generated", "empty", *REF), ["empty: empty file"]),
    (("--hypotheses", "hyp", "--references", "empty"), ["empty: empty file"]),
    (("--generated", "cut.log", *REF), ["cut.log: cut off"]),
    ((*HYP, "--baseline", "cut.log"), ["cut.log: cut off"]),
    (("--generated", "hyp", *REF), ["hyp: no translations"]),
    (("--hypotheses", "missing", *REF), ["missing: No such file"]),
    (("--hypotheses", "hyp", "--references", "missing.gz"), ["missing.gz: No such file"]),
    (("--hypotheses", "cut.gz", *REF), ["cut.gz: damaged gzip"]),
    (("--generated", "plain.gz", *REF), ["plain.gz: damaged gzip"]),
    (("--hypotheses", "latin", *REF), ["latin, line 2: invalid UTF-8 (byte 5"]),
    (("--hypotheses", "-", "--references", "-"), ["--hypotheses and --references"]),
    (("--generated", "-", *REF, "--baseline", "-"), ["--generated and --baseline"]),
    ((*HYP, "--lang", "xx"), ["no Moses tokenizer for language 'xx'"]),
    ((*HYP, "--pair", "de"), ["--pair de"]),
    ((*HYP, "--baseline", "base", "--samples", "0"), ["samples 0"]),
    ((*HYP, "--by-length", "a.gif"), ["a.gif: name a .png or .svg"]),
    ((*HYP, "--by-length", "no/a.png"), ["no/a.png: name a file in a folder that is there"]),
    ((*HYP, "--by-length", "a.png", "--edges", "9", "3"), ["edges 9 3"]),
    ((*HYP, "--json", "no/a.json"), ["no/a.json: name a file in a folder that is there"]),
    ((*HYP, "--json", "."), [".: name a file"]),
]


@pytest.mark.parametrize("arguments, said", REFUSED, ids=lambda value: " ".join(value))
def test_refusals(run, folder, arguments, said):
    before = sorted(folder.iterdir())
    status, out, err = run(*arguments, stdin=b"")
    assert status == 1 and not out
    assert len(err.splitlines()) == 1 and err.startswith("score.py: error: ")
    assert all(part in err for part in said), err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    "stdin, said",
    [(b"", "standard input: empty file"), (b"a\n\xff\n", "standard input, line 2: invalid UTF-8")],
)
def test_standard_input_that_is_no_good(run, stdin, said):
    status, out, err = run("--hypotheses", "-", *REF, stdin=stdin)
    assert status == 1 and not out and said in err and len(err.splitlines()) == 1


def test_standard_input_that_is_closed(run, monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    status, out, err = run("--hypotheses", "-", *REF)
    assert status == 1 and not out
    assert err.startswith("score.py: error: standard input is closed: ") and err.count("\n") == 1


def test_a_byte_order_mark_is_no_text(run, folder):
    """At the start of a file; elsewhere it is a character as any other."""
    marked = b"\xef\xbb\xbf" + (folder / "ref").read_bytes()
    (folder / "marked").write_bytes(marked)
    for given in (
        ("--hypotheses", "ref", "--references", "marked"),
        ("--hypotheses", "marked", "--references", "ref"),
        ("--hypotheses", "-", "--references", "ref"),
        ("--hypotheses", "marked", "--references", "marked"),
    ):
        status, out, err = run(*given, stdin=marked)
        assert status == 0 and out.startswith("BLEU 100.00") and not err
    (folder / "within").write_bytes(b"\n".join([b"word", marked, b""]))
    (folder / "after").write_bytes(b"word\n" + (folder / "ref").read_bytes() + b"\n")
    status, out, _ = run("--hypotheses", "within", "--references", "after")
    assert status == 0 and not out.startswith("BLEU 100.00")


def test_options_that_do_not_go_together(run):
    for arguments in (REF, (*HYP, "--generated", "gen.log"), (*HYP, "--source", "src")):
        with pytest.raises(SystemExit):
            run(*arguments)
    with pytest.raises(SystemExit):
        run(*HYP, "--pair", "en-de", "--lang", "de")
