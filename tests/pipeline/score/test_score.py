"""Scores are those of sacreBLEU's program and of multi-bleu.perl."""

import gzip
import json
import re
import unicodedata

import pytest
from command import resmlp, shell
from fairseq.data import Dictionary
from fairseq.scoring.bleu import BleuConfig, Scorer
from prepare_text import sentences

from resmlp_mt.pipeline.score import score, split_compound_words, tokenize, tokenized_scores
from resmlp_mt_runtime.lines import write_lines

REFERENCES = [line.replace(" ", "-", 1) for line in sentences(200, 1, "")]
SYSTEM = [" ".join(line.split()[:-2]) for line in REFERENCES]
VIETNAMESE = ["Tôi thích uống trà vào buổi sáng.", "Cô ấy sống ở một thành phố nhỏ."]
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
    given = {"-r ref.gz -i hyp": "hyp", "-r ref": "hyp", "-r ref -i -": "hyp", "-r - -i hyp": "ref"}
    for words, name in given.items():
        found = resmlp("score", *words.split(), stdin=(folder / name).read_bytes())
        assert found == (0, f"BLEU {bleu}\nchrF {chrf}\n", "")
    write_lines(folder / "nfd", [unicodedata.normalize("NFD", line) for line in VIETNAMESE])
    write_lines(folder / "nfc", VIETNAMESE)
    for words in ("-r nfd -i nfc", "-r nfc -i nfd"):
        assert resmlp("score", *words.split()).out.startswith("BLEU 100.00 ")
        assert "|tok:zh|" in resmlp("score", *words.split(), "-t", "zh-Hans").out


@pytest.mark.parametrize("language", ["zh", "zh_CN", "cmn"])
def test_the_target_language_chooses_the_tokenizer(language):
    hypothesis = [line.replace("三遍", "两遍") for line in CHINESE]
    by_words, by_characters = score(hypothesis, CHINESE), score(hypothesis, CHINESE, language)
    assert by_words["bleu"] < 70 < by_characters["bleu"] < 100
    assert "|tok:13a|" in by_words["bleu_signature"]
    assert "|tok:zh|" in by_characters["bleu_signature"]
    thai = ["ฉันชอบชามากที่สุดในโลก"], ["ฉันชอบชามากที่สุดในเมือง"]
    assert score(*thai)["bleu"] == 0 and 50 < score(*thai, "tha_Thai")["bleu"] < 100


@pytest.mark.parametrize("text", [CHINESE, ["私はTVを見た。"], ["ฉันชอบชา", "ขอบคุณ"]])
def test_text_without_spaces_asks_for_its_language(tmp_path, text):
    write_lines(tmp_path / "text", text)
    command = ("score", "-r", tmp_path / "text", "-i", tmp_path / "text")
    assert re.fullmatch("warning: .*: for BLEU, give the language, .*\n", resmlp(*command).err)
    assert resmlp(*command, "-t", "cn").err  # no language that has a tokenizer
    assert not resmlp(*command, "-t", "zh").err
    write_lines(tmp_path / "text", [*VIETNAMESE, *text[:1]])
    assert not resmlp(*command).err


TREATED = {"de_AT": "whole|quotes:ascii", "cs": "whole|quotes:raw"}
TREATED |= {"fr": "aggressive|quotes:apostrophe"}


@pytest.mark.parametrize("target, treated", TREATED.items())
def test_the_target_language_decides_and_the_signature_says_it(folder, target, treated):
    """With compounds split for German."""
    command, language = ("score", "--references", "ref", "-i", "hyp", "-t", target), target[:2]
    status, out, _ = resmlp(*command, "--tokenized")
    scores = tokenized_scores(SYSTEM, REFERENCES, language)
    signature = scores["tokenized_bleu_signature"]
    assert status == 0 and f"\ntokenized BLEU {scores['tokenized_bleu']:.2f} {signature}\n" in out
    assert f"tok:moses-{language}-" in signature
    assert f"|hyphens:{treated}|smooth:none|" in signature
    assert ("\ncompound-split BLEU " in out) == (language == "de")
    assert "tokenized" not in resmlp(*command).out


def multi_bleu(hypotheses, references):
    """As multi-bleu.perl computes it, of tokens, without smoothing: so does fairseq's C++."""
    dictionary, scorer = Dictionary(), Scorer(BleuConfig())
    for pair in zip(references, hypotheses):
        scorer.add(*map(dictionary.encode_line, pair))
    return round(scorer.score(), 2)


SYSTEMS = {"short": SYSTEM, "no four right words": ["a b c x"] * len(REFERENCES)}


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("language, splits", [("de", [False, True]), ("fr", [False])])
def test_tokenized_scores_are_those_of_multi_bleu(name, language, splits):
    found = tokenized_scores(SYSTEMS[name], REFERENCES, language)
    names, sides = ("tokenized_bleu", "compound_split_bleu"), (SYSTEMS[name], REFERENCES)
    expected = [multi_bleu(*(tokenize(x, language, split) for x in sides)) for split in splits]
    assert [found[name] for name in names if name in found] == expected


# text, and what tokenizer.perl (-l LANGUAGE, for French with -a) prints, quotes replaced before
TOKENS = """
de: Der „12-jährige“ Junge sagte: «Das geht’s nicht», z. B. am 3. Mai…
Der " 12-jährige " Junge sagte : " Das geht ' s nicht " , z. B. am 3. Mai ...
de: Die CO2-neutrale U-Bahn-Linie (Nr. 5) kostet 1.234,50 Euro, oder?
Die CO2-neutrale U-Bahn-Linie ( Nr. 5 ) kostet 1.234,50 Euro , oder ?
de: "Rich-text-Format" & 'Ganz-neu'; A-B-C -- x<y> [5|6].
" Rich-text-Format " & ' Ganz-neu ' ; A-B-C -- x < y > [ 5 | 6 ] .
fr: L’Orient-Express arrive-t-il à l'heure ? « Peut-être », dit-elle.
L' Orient @-@ Express arrive @-@ t @-@ il à l' heure ? « Peut @-@ être » , dit @-@ elle .
fr: C'est-à-dire qu’aujourd'hui, M. Dupont a payé 3,5 % (soit 1 200 €).
C' est @-@ à @-@ dire qu' aujourd' hui , M. Dupont a payé 3,5 % ( soit 1 200 € ) .
it: Il dit: „l'ora“ ben-fatto.
Il dit : „ l' ora “ ben-fatto .
"""


def test_tokens_are_those_of_moses():
    for language, text, tokens in re.findall(r"(\w\w): (.*)\n(.*)\n", TOKENS):
        assert tokenize([text], language) == [tokens]


def test_compounds_are_split_as_in_the_papers():
    assert split_compound_words("a rich-text format") == "a rich ##AT##-##AT## text format"
    # as the substitution does it: from left to right, no character in two matches
    assert split_compound_words("A-B-C -- -x y-") == "A ##AT##-##AT## B-C -- -x y-"
    assert split_compound_words("50%-ige") == "50% ##AT##-##AT## ige"
    assert tokenize(["U-Bahn-Linie."], "de", True) == ["U ##AT##-##AT## Bahn ##AT##-##AT## Linie ."]
