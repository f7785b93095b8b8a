"""BLEU by sentence length."""

import pytest
from score_text import drop_words, sentences

from resmlp_mt.errors import UserError
from resmlp_mt.score.by_length import bleu_by_length
from resmlp_mt.score.sacre import score


def test_buckets():
    by = ["", "a", "a b", "a b c", " a  b\tc ", "a b c d", "a b c d e f g"]
    rows = bleu_by_length(["x"] * 7, ["x"] * 7, by, [2, 4, 5])
    assert [(row["from"], row["to"], row["sentences"]) for row in rows] == [
        (0, 2, 3),
        (3, 4, 3),
        (5, 5, 0),
        (6, None, 1),
    ]
    assert [row["bleu"] is None for row in rows] == [False, False, True, False]


def test_a_buckets_bleu_is_that_of_its_sentences():
    references = sentences(150)
    hypotheses = drop_words(references, 2)
    rows = bleu_by_length(hypotheses, references, references, [8, 16])
    assert sum(row["sentences"] for row in rows) == 150
    for row in rows:
        inside = [
            number
            for number, line in enumerate(references)
            if row["from"] <= len(line.split()) <= (row["to"] or 99)
        ]
        alone = score([hypotheses[i] for i in inside], [references[i] for i in inside])
        assert row["bleu"] == alone["bleu"] and row["sentences"] == len(inside)
    assert len({row["bleu"] for row in rows}) == 3
    (whole, empty) = bleu_by_length(hypotheses, references, references, [99])
    assert whole["bleu"] == score(hypotheses, references)["bleu"] and empty["bleu"] is None


@pytest.mark.parametrize("edges", [[], [0, 5], [5, 5], [9, 5]])
def test_edges_that_do_not_rise_are_refused(edges):
    with pytest.raises(UserError, match="edges"):
        bleu_by_length(["a"], ["a"], ["a"], edges)


def test_the_tokenizer_is_that_of_the_target_language():
    lines = ["我们今天去公园散步。", "他的父亲是一名医生。"]
    near = [line.replace("父亲", "母亲") for line in lines]
    (row, _) = bleu_by_length(near, lines, lines, [5], "zh")
    assert row["bleu"] == score(near, lines, "zh")["bleu"] > 50
