"""Scores: those of sacreBLEU's program and of multi-bleu.perl; what the command prints."""

import gzip
import importlib
import json

import pytest
from command import resmlp, shell
from score_text import drop_words, sentences

from resmlp_mt.pipeline.score import score, split_compound_words, tokenize, tokenized_scores
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.lines import write_lines

REFERENCES = sentences(200)
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
    assert "|tok:zh|" in by_characters["bleu_signature"]


@pytest.mark.parametrize("language", ["ja", "ko"])
def test_a_tokenizer_that_is_not_installed(language, monkeypatch):
    tokenizer = importlib.import_module(f"sacrebleu.tokenizers.tokenizer_{language}_mecab")
    monkeypatch.setattr(tokenizer, "MeCab", None)  # as after an import that failed
    with pytest.raises(UserError, match=rf"^.*pip install sacrebleu\[{language}\].*\Z"):
        score(["a"], ["a"], language)


@pytest.mark.parametrize(
    "pair, treated",
    [
        ("fr-de_AT", "whole|quotes:ascii"),
        ("en-fr", "aggressive|quotes:apostrophe"),
        ("en-cs", "whole|quotes:raw"),
    ],
)
def test_the_target_language_decides_what_is_done_and_the_signature_says_it(folder, pair, treated):
    """With compounds split for German."""
    command, language = ("score", "--references", "ref", "-i", "hyp", "-l", pair), pair[3:5]
    status, out, _ = resmlp(*command, "--tokenized")
    scores = tokenized_scores(SYSTEM, REFERENCES, language)
    name, signature = "tokenized_bleu", scores["tokenized_bleu_signature"]
    assert status == 0 and f"\ntokenized BLEU {scores[name]:.2f} {signature}\n" in out
    assert f"tok:moses-{language}-" in signature
    assert f"|hyphens:{treated}|smooth:none|" in signature
    split = scores.get("compound_split_bleu_signature", "")
    assert ("|hyphens:compounds|" in split) == ("\ncompound-split BLEU " in out)
    assert ("\ncompound-split BLEU " in out) == (language == "de")
    assert "tokenized" not in resmlp(*command).out


SYSTEMS = {
    "right": REFERENCES,
    "short": SYSTEM,
    "wrong": [*REFERENCES[1:], REFERENCES[0]],
    "long": [f"{line} {line}" if i % 7 == 0 else line for i, line in enumerate(REFERENCES)],
}
# multi-bleu.perl's, as its formula gives them
TOKENIZED_BLEU = {
    "de": {"right": 100, "short": 60.16, "wrong": 0, "long": 85.08},
    "fr": {"right": 100, "short": 61.92, "wrong": 2.3, "long": 85.79},
}
SPLIT_BLEU = {"right": 100, "short": 62.05, "wrong": 1.66, "long": 85.67}


def tokenized_bleu(hypotheses, references, language):
    return tokenized_scores(hypotheses, references, language)["tokenized_bleu"]


@pytest.mark.parametrize("name", SYSTEMS)
def test_tokenized_scores_are_those_of_multi_bleu(name):
    for language, expected in TOKENIZED_BLEU.items():
        found = tokenized_scores(SYSTEMS[name], REFERENCES, language)
        assert found["tokenized_bleu"] == expected[name]
        if language == "de":
            assert found["compound_split_bleu"] == SPLIT_BLEU[name]
    # nothing is smoothed: zero where there are no four words, or no right four
    for hypothesis, reference in (("a b c", "a b c"), ("a b c x", "a b c d"), ("", "a b c d")):
        assert tokenized_bleu([hypothesis], [reference], "de") == 0


# what tokenizer.perl (-l de; -a -l fr) prints, quotes replaced before
GERMAN = {
    "Der „12-jährige“ Junge sagte: «Das geht’s nicht», z. B. am 3. Mai…": (
        'Der " 12-jährige " Junge sagte : " Das geht \' s nicht " , z. B. am 3. Mai ...'
    ),
    "Die CO2-neutrale U-Bahn-Linie (Nr. 5) kostet 1.234,50 Euro, oder?": (
        "Die CO2-neutrale U-Bahn-Linie ( Nr. 5 ) kostet 1.234,50 Euro , oder ?"
    ),
    "\"Rich-text-Format\" & 'Ganz-neu'; A-B-C -- x<y> [5|6].": (
        "\" Rich-text-Format \" & ' Ganz-neu ' ; A-B-C -- x < y > [ 5 | 6 ] ."
    ),
}
FRENCH = {
    "L’Orient-Express arrive-t-il à l'heure ? « Peut-être », dit-elle.": (
        "L' Orient @-@ Express arrive @-@ t @-@ il à l' heure ? « Peut @-@ être » , dit @-@ elle ."
    ),
    "C'est-à-dire qu’aujourd'hui, M. Dupont a payé 3,5 % (soit 1 200 €).": (
        "C' est @-@ à @-@ dire qu' aujourd' hui , M. Dupont a payé 3,5 % ( soit 1 200 € ) ."
    ),
}


def test_tokens_are_those_of_moses():
    assert tokenize(list(GERMAN), "de") == list(GERMAN.values())
    assert tokenize(list(FRENCH), "fr") == list(FRENCH.values())
    # where no paper is compared with, quotes are left alone
    assert tokenize(["Il dit: „l'ora“ ben-fatto."], "it") == ["Il dit : „ l' ora “ ben-fatto ."]


def test_compounds_are_split_as_in_the_papers():
    assert split_compound_words("a rich-text format") == "a rich ##AT##-##AT## text format"
    # as the substitution does it: from left to right, no character in two matches
    assert split_compound_words("A-B-C -- -x y-") == "A ##AT##-##AT## B-C -- -x y-"
    assert split_compound_words("50%-ige") == "50% ##AT##-##AT## ige"
    assert tokenize(["U-Bahn-Linie."], "de", True) == ["U ##AT##-##AT## Bahn ##AT##-##AT## Linie ."]
