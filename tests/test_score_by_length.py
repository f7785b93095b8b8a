"""BLEU by sentence length: its numbers and its picture."""

import pytest
from score_text import drop_words, sentences

from resmlp_mt.errors import UserError
from resmlp_mt.pictures import length, style
from resmlp_mt.pictures.length import plot_by_length
from resmlp_mt.pipeline.by_length import bleu_by_length
from resmlp_mt.pipeline.scoring import score


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


def test_picture(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(length, "save_for_screen", lambda figure, path: seen.append(figure))
    better = [{**row, "bleu": row["bleu"] and row["bleu"] + 1} for row in ROWS]
    plot_by_length({"ours": ROWS, "theirs": better}, tmp_path / "a.png", "source")
    axes = seen[0].axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == [
        "0-10\n1,234",
        "11-20\n0",
        "over 20\n7",
    ]
    assert "words of the source" in axes.get_xlabel() and "sentences" in axes.get_xlabel()
    assert "BLEU" in axes.get_ylabel() and axes.get_ylim()[0] == 0
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ours", "theirs"]
    for line, heights in zip(axes.lines, ([20, None, 30], [21, None, 31])):
        drawn = [None if height != height else height for height in line.get_ydata()]
        assert drawn == heights


def test_picture_files(tmp_path):
    for name in ("a.png", "a.svg"):
        plot_by_length({"ours": ROWS}, tmp_path / name, "reference")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "a.svg").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg"]


def test_no_half_of_a_picture(tmp_path, monkeypatch):
    def full_disk(path, content):
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(style.Path, "write_bytes", full_disk)
    with pytest.raises(UserError, match="a.png could not be written .No space left"):
        plot_by_length({"ours": ROWS}, tmp_path / "a.png", "source")
    assert not list(tmp_path.iterdir())
