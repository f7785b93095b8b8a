"""Tokenized BLEU: the numbers of multi-bleu.perl, and the tokens of the literature."""

import pytest
from score_text import drop_words, sentences

from resmlp_mt.score.tokenized_bleu import split_compound_words, tokenize, tokenized_scores

REFERENCES = sentences(200)
SYSTEMS = {
    "right": REFERENCES,
    "short": drop_words(REFERENCES, 3),
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
def test_scores(name):
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


def test_tokens():
    assert tokenize(list(GERMAN), "de") == list(GERMAN.values())
    assert tokenize(list(FRENCH), "fr") == list(FRENCH.values())
    # where no paper is compared with, quotes are left alone
    assert tokenize(["Il dit: „l'ora“ ben-fatto."], "it") == ["Il dit : „ l' ora “ ben-fatto ."]


def test_compounds():
    assert split_compound_words("a rich-text format") == "a rich ##AT##-##AT## text format"
    # as the substitution does it: from left to right, no character in two matches
    assert split_compound_words("A-B-C -- -x y-") == "A ##AT##-##AT## B-C -- -x y-"
    assert tokenize(["U-Bahn-Linie."], "de", True) == ["U ##AT##-##AT## Bahn ##AT##-##AT## Linie ."]


def test_a_typographic_quote_is_an_ascii_one():
    ascii, typographic = ['Er sagte: "Das geht\'s so."'], ["Er sagte: „Das geht’s so.“"]
    assert tokenized_bleu(ascii, typographic, "de") == pytest.approx(100)
    assert tokenized_bleu(["l'heure de l'été"], ["l’heure de l’été"], "fr") == pytest.approx(100)
    assert tokenized_bleu(ascii, typographic, "nl") < 100


def test_signatures_say_what_was_done():
    for language, treated in (
        ("de", "whole|quotes:ascii"),
        ("fr", "aggressive|quotes:apostrophe"),
        ("cs", "whole|quotes:raw"),
    ):
        result = tokenized_scores(["ein Haus ist da ."], ["ein Haus ist da ."], language)
        assert result["tokenized_bleu"] == 100
        signature = result["tokenized_bleu_signature"]
        assert f"tok:moses-{language}-" in signature
        assert f"|hyphens:{treated}|smooth:none|" in signature
        split = result.get("compound_split_bleu_signature", "")
        assert ("|hyphens:compounds|" in split) == (language == "de")
