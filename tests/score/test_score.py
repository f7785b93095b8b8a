"""Scores: those of sacreBLEU's own program; what the command prints, and what it refuses."""

import gzip
import importlib
import json

import pytest
from command import resmlp, shell
from fairseq_programs import ROOT, generate
from score_text import drop_words, sentences

from resmlp_mt.errors import UserError
from resmlp_mt.score.sacre import score
from resmlp_mt.score.tokenized_bleu import tokenized_scores
from resmlp_mt.text.lines import write_lines

REFERENCES = sentences(60)
SYSTEM = drop_words(REFERENCES, 3)
CHINESE = ["我们今天去公园散步。", "他的父亲是一名医生。", "这本书我已经读过三遍了。"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """References and a system, in the current folder."""
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "ref", REFERENCES)
    write_lines(tmp_path / "hyp", SYSTEM)
    (tmp_path / "ref.gz").write_bytes(gzip.compress((tmp_path / "ref").read_bytes()))
    return tmp_path


def test_scores_and_signatures_of_sacrebleu(folder):
    found = shell("python -m sacrebleu ref -i hyp -w 2 -f json -m bleu chrf", folder)
    result = score(SYSTEM, REFERENCES)
    for metric, by_sacrebleu in zip(("bleu", "chrf"), json.loads(found.stdout), strict=True):
        assert result[metric] == by_sacrebleu["score"] and 0 < result[metric] < 100
        assert result[f"{metric}_signature"] == by_sacrebleu["signature"]
    bleu, chrf = (f"{result[m]:.2f} {result[f'{m}_signature']}" for m in ("bleu", "chrf"))
    assert score(SYSTEM, REFERENCES, metrics=("bleu",)).keys() == {"bleu", "bleu_signature"}
    for words, name in (
        ("--references ref.gz -i hyp", "hyp"),
        ("--references ref", "hyp"),
        ("--references ref -i -", "hyp"),
        ("-r - -i hyp", "ref"),
    ):
        found = resmlp("score", *words.split(), stdin=(folder / name).read_bytes())
        assert found == (0, f"BLEU {bleu}\nchrF {chrf}\n", "")


@pytest.mark.parametrize("language", ["zh", "zh_CN", "cmn"])
def test_the_target_language_chooses_the_tokenizer(language):
    hypothesis = [line.replace("三遍", "两遍") for line in CHINESE]
    by_words, by_characters = score(hypothesis, CHINESE), score(hypothesis, CHINESE, language)
    assert by_words["bleu"] < 70 < by_characters["bleu"] < 100
    assert "|tok:13a|" in by_words["bleu_signature"]
    assert by_characters == score(hypothesis, CHINESE, tokenize="zh")
    assert "|tok:char|" in score(hypothesis, CHINESE, language, tokenize="char")["bleu_signature"]


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_a_tokenizer_that_is_not_installed(language, monkeypatch):
    tokenizer = importlib.import_module(f"sacrebleu.tokenizers.tokenizer_{language}_mecab")
    monkeypatch.setattr(tokenizer, "MeCab", None)  # as after an import that failed
    with pytest.raises(UserError) as raised:
        score(["a"], ["a"], language)
    assert f"pip install sacrebleu[{language}]" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert score(["a b c d"], ["a b c d"], language, tokenize="char")["bleu"] == 100


@pytest.mark.parametrize("pair, split", [("en-de", True), ("en-fr", False), ("fr-de_AT", True)])
def test_tokenized_bleu(folder, pair, split):
    """With compounds split for German."""
    command = ("score", "--references", "ref", "-i", "hyp", "-l", pair)
    status, out, _ = resmlp(*command, "--tokenized")
    scores = tokenized_scores(SYSTEM, REFERENCES, pair[3:5])
    name, signature = "tokenized_bleu", scores["tokenized_bleu_signature"]
    assert status == 0 and f"\ntokenized BLEU {scores[name]:.2f} {signature}\n" in out
    assert ("\ncompound-split BLEU " in out) == split
    assert "tokenized" not in resmlp(*command).out


def test_through_a_shell(trained, corpus, folder):
    """A log of fairseq-generate by scripts/bleu.sh."""
    (folder / "log").write_text(generate(trained.data, trained.path), encoding="utf-8")
    command = f"bash '{ROOT}/scripts/bleu.sh' log '{corpus.text}/test.yy'"
    for languages, printed in (("", "chrF"), (" en-de", "compound-split BLEU")):
        done = shell(command + languages, folder)
        assert done.returncode == 0 and not done.stderr and printed in done.stdout
    done = shell(f"bash '{ROOT}/scripts/bleu.sh' log", folder)
    assert done.returncode == 2 and done.stderr.startswith("A log of fairseq-generate to sacreBLEU")
