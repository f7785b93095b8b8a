"""Tokenized BLEU: multi-bleu.perl's formula, and the tokens of the literature."""

import math
from collections import Counter

import pytest
from score_text import drop_words, next_lines, sentences

from resmlp_mt.errors import UserError
from resmlp_mt.score.tokenized_bleu import split_compound_words, tokenize, tokenized_scores


def tokenized_bleu(hypotheses, references, language, split=False):
    name = "compound_split_bleu" if split else "tokenized_bleu"
    return tokenized_scores(hypotheses, references, language)[name]


def multi_bleu(hypotheses, references):
    """Moses' multi-bleu.perl by its formula: 100 BP (p1 p2 p3 p4)^(1/4) over the whole corpus.

    p_n is the share of the hypotheses' n-grams that are in their reference, each counted at most
    as often as it is there; BP = exp(1 - r / c) where the c words are fewer than the references'
    r. Nothing is smoothed.
    """
    precisions = []
    for order in (1, 2, 3, 4):
        correct = total = 0
        for hypothesis, reference in zip(hypotheses, references):
            here, there = (
                Counter(zip(*(words[start:] for start in range(order))))
                for words in (hypothesis.split(), reference.split())
            )
            correct += sum(min(times, there[ngram]) for ngram, times in here.items())
            total += sum(here.values())
        precisions.append(correct / total if total else 0)
    if min(precisions) == 0:
        return 0.0
    words, wanted = (sum(len(line.split()) for line in side) for side in (hypotheses, references))
    penalty = 1 if words >= wanted else math.exp(1 - wanted / words)
    return 100 * penalty * math.exp(sum(map(math.log, precisions)) / 4)


@pytest.mark.parametrize("language, split", [("de", False), ("de", True), ("fr", False)])
def test_agrees_with_multi_bleu(language, split):
    references = sentences(200)
    longer = [f"{line} {line}" if i % 7 == 0 else line for i, line in enumerate(references)]
    for hypotheses in (references, drop_words(references, 3), next_lines(references), longer):
        tokens = [tokenize(side, language, split) for side in (hypotheses, references)]
        bleu = tokenized_bleu(hypotheses, references, language, split)
        assert bleu == pytest.approx(multi_bleu(*tokens), abs=0.01)
        assert (bleu > 99.99) == (hypotheses is references)


def test_zero_where_a_precision_is_zero():
    five = "eins zwei drei vier fünf"
    for hypothesis, reference in (
        ("eins zwei drei", "eins zwei drei"),  # no four words anywhere
        ("eins zwei drei sechs fünf vier", f"{five} sechs"),  # no right four
        ("etwas ganz anderes als dies", five),
        ("", five),
    ):
        assert tokenized_bleu([hypothesis], [reference], "de") == 0
        assert multi_bleu([hypothesis], [reference]) == 0


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
    result = tokenized_scores(["ein Haus ist da ."], ["ein Haus ist da ."], "de")
    assert result["tokenized_bleu"] == result["compound_split_bleu"] == 100
    assert "tok:moses-de-" in result["tokenized_bleu_signature"]
    assert "|hyphens:whole|quotes:ascii|smooth:none|" in result["tokenized_bleu_signature"]
    assert "|hyphens:compounds|" in result["compound_split_bleu_signature"]
    for language, treated in (("fr", "aggressive|quotes:apostrophe"), ("cs", "whole|quotes:raw")):
        result = tokenized_scores(["a"], ["a"], language)
        assert f"|hyphens:{treated}|" in result["tokenized_bleu_signature"]
        assert "compound_split_bleu" not in result


def test_refusals():
    """Of other languages: tests/cli/test_refusals.py."""
    with pytest.raises(UserError, match="1 hypotheses but 2 references"):
        tokenized_bleu(["a"], ["a", "b"], "de")
