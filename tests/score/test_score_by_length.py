"""BLEU by sentence length: its numbers and its picture."""

import pytest
from picture_inputs import COLUMN, assert_legible
from score_text import drop_words, sentences

from resmlp_mt.analysis.by_length import bleu_by_length
from resmlp_mt.errors import UserError
from resmlp_mt.pictures import style
from resmlp_mt.pictures.length import draw_by_length
from resmlp_mt.pictures.style import PAGE
from resmlp_mt.score.scoring import score


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


@pytest.mark.parametrize("edges", [[], [0, 5], [5, 5], [9, 5], [-1]])
def test_edges_that_do_not_rise_are_refused(edges):
    with pytest.raises(UserError, match="edges"):
        bleu_by_length(["a"], ["a"], ["a"], edges)


def test_different_numbers_of_lines_are_refused():
    with pytest.raises(UserError, match="2 hypotheses but 1 references"):
        bleu_by_length(["a"], ["a"], ["a", "b"])


ROWS = [
    {"from": 0, "to": 10, "sentences": 1234, "bleu": 20.0},
    {"from": 11, "to": 20, "sentences": 0, "bleu": None},
    {"from": 21, "to": None, "sentences": 7, "bleu": 30.0},
]


def test_picture():
    better = [{**row, "bleu": row["bleu"] and row["bleu"] + 1} for row in ROWS]
    figure = draw_by_length({"ours": ROWS, "theirs": better}, "source", "heading")
    assert_legible(figure)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_xticklabels()] == [
        "0-10\n1,234",
        "11-20\n0",
        "over 20\n7",
    ]
    assert "words of the source" in axes.get_xlabel() and "sentences" in axes.get_xlabel()
    assert "BLEU" in axes.get_ylabel() and axes.get_ylim()[0] == 0
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["ours", "theirs"]
    assert figure.get_suptitle() == "heading"
    for line, heights in zip(axes.lines, ([20, None, 30], [21, None, 31])):
        drawn = [None if height != height else height for height in line.get_ydata()]
        assert drawn == heights


@pytest.mark.parametrize("buckets, width", [(1, COLUMN), (6, COLUMN), (8, PAGE), (14, PAGE)])
def test_room_for_the_buckets(buckets, width):
    rows = [
        {"from": 101 + 10 * i, "to": 110 + 10 * i, "sentences": 123456, "bleu": i / 2}
        for i in range(buckets)
    ]
    systems = {f"a system of a long name, {number}": rows for number in range(5)}
    assert_legible(draw_by_length(systems, "reference", "a heading"), width)


def test_picture_files(tmp_path):
    files = [tmp_path / name for name in ("a.png", "a.svg")]
    style.save(draw_by_length({"ours": ROWS}, "reference"), *files)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "a.svg").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg"]


def test_no_half_of_a_picture(tmp_path, monkeypatch):
    def full_disk(path, content):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(style.Path, "write_bytes", full_disk)
    with pytest.raises(UserError, match="a.png could not be written .No space left"):
        style.save(draw_by_length({"ours": ROWS}, "source"), tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
