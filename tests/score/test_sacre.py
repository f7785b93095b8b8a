"""Scores and significance tests: those of sacreBLEU's own program."""

import importlib
import json
import os
import re
import subprocess
import sys

import pytest
from score_text import drop_words, sentences

from resmlp_mt.errors import UserError
from resmlp_mt.score.sacre import paired, score

REFERENCES = sentences(60)
FIRST, SECOND = drop_words(REFERENCES, 3), drop_words(REFERENCES, 3, seed=9)
CHINESE = ["我们今天去公园散步。", "他的父亲是一名医生。", "这本书我已经读过三遍了。"]


def sacrebleu(folder, *words, seed="12345"):
    """What sacreBLEU's program prints, given the files ref, one and two."""
    for name, lines in (("ref", REFERENCES), ("one", FIRST), ("two", SECOND)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONUTF8": "1", "SACREBLEU_SEED": seed}
    command = [sys.executable, "-m", "sacrebleu", *words, "-m", "bleu", "chrf", "ter"]
    run = subprocess.run(
        command, capture_output=True, encoding="utf-8", check=True, cwd=folder, env=environment
    )
    return run.stdout


@pytest.mark.parametrize("references", [["ref"], ["ref", "two"]])
def test_scores_and_signatures(tmp_path, references):
    found = json.loads(sacrebleu(tmp_path, *references, "-i", "one", "-w", "2", "-f", "json"))
    lists = {"ref": REFERENCES, "two": SECOND}
    result = score(FIRST, [lists[name] for name in references], metrics=("bleu", "chrf", "ter"))
    for metric, by_sacrebleu in zip(("bleu", "chrf", "ter"), found):
        assert result[metric] == by_sacrebleu["score"] and 0 < result[metric] < 100
        assert result[f"{metric}_signature"] == by_sacrebleu["signature"]
    if len(references) == 1:
        assert result == score(FIRST, REFERENCES, metrics=("bleu", "chrf", "ter"))


@pytest.mark.parametrize("test, values", [("bs", ("score", "mean", "ci")), ("ar", ("score",))])
def test_paired_tests(tmp_path, monkeypatch, test, values):
    words = ["ref", "-i", "one", "two", f"--paired-{test}", f"--paired-{test}-n", "100"]
    printed = sacrebleu(tmp_path, *words, "-w", "4", "-f", "text", seed="7")
    numbers = list(map(float, re.findall(r"\d+\.\d{4}", printed[: printed.index("\nPaired")])))
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    metrics = ("bleu", "chrf", "ter")
    found = paired({"one": FIRST, "two": SECOND}, REFERENCES, None, metrics, None, test, 100)
    one, two = found["systems"]["one"], found["systems"]["two"]
    ours = [system[m][value] for system in (one, two) for m in metrics for value in values]
    p_values = [two[metric]["p_value"] for metric in metrics]
    assert [*ours, *p_values] == pytest.approx(numbers, abs=1e-4)
    assert 0.02 < two["bleu"]["p_value"] < 1 and one["bleu"]["p_value"] is None
    assert all(signature in printed for signature in found["signatures"].values())
    assert found == json.loads(json.dumps(found)) and found["baseline"] == "one"


@pytest.mark.parametrize("language", ["zh", "zh_CN"])
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


REFUSED = [
    ("2 hypotheses but 1 references", lambda: score(["a", "b"], ["a"])),
    ("1 hypotheses but 2 references", lambda: score(["a"], [["a"], ["a", "b"]])),
    ("nothing to score", lambda: score([], [])),
    ("-tok moses: no such tokenizer", lambda: score(["a"], ["a"], tokenize="moses")),
    ("give two or more", lambda: paired({"one": ["a"]}, ["a"])),
    ("2 hypotheses but 1 references", lambda: paired({"a": ["a"], "b": ["a", "b"]}, ["a"])),
    ("SACREBLEU_SEED is not a number", lambda: paired({"a": ["a"], "b": ["a"]}, ["a"])),
]


@pytest.mark.parametrize("said, call", REFUSED)
def test_refusals(said, call, monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "seven")
    with pytest.raises(UserError, match=said):
        call()
