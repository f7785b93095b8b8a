"""Learning curves, and BLEU by length: pictures out of logs and results."""

import json

import numpy as np
import pytest
from command import refused, resmlp
from picture_inputs import COLUMN, assert_legible, drawn, labelled

from resmlp_mt.plot.curves import read_curves
from resmlp_mt.plot.draw_curves import draw_curves
from resmlp_mt.plot.length import draw_by_length
from resmlp_mt.plot.style import PAGE, in_words, look, looks

TRAIN = '2020-01-01 00:00:00 | INFO | train_inner | {{"num_updates": "{}", "nll_loss": "{}"}}\n'
VALID = (
    '2020-01-01 00:00:00 | INFO | valid | {{"valid_num_updates": "{}", "valid_nll_loss": "{}"}}\n'
)


@pytest.fixture
def log(tmp_path):
    """A log of two validations in a run's folder."""
    folder = tmp_path / "a-run" / "checkpoints"
    folder.mkdir(parents=True)
    lines = [TRAIN.format(i, 9 - i / 100) for i in range(10, 401, 10)]
    lines += [VALID.format(200, 6.5), VALID.format(400, 5.25)]
    (folder / "train.log").write_text("something else\n" + "".join(lines))
    return folder / "train.log"


def result(path, **values):
    path.write_text(json.dumps(values))
    return path


def test_curves_and_their_names(log, tmp_path):
    result_b = result(tmp_path / "b.json", label="B", valid_curve=[[200, 7.0], [400, 6.0]])
    result_c = result(tmp_path / "c.json", valid_curve=[[200, 7.5]])
    found = read_curves([log, result_b, result_c, f"mine={log}"])
    assert list(found) == ["a-run", "B", "c", "mine"]
    assert found["mine"]["valid"] == [(200, 6.5), (400, 5.25)]
    assert len(found["mine"]["train"]) == 40 and found["mine"]["train"][-1] == (400, 5.0)
    assert found["B"] == {"train": [], "valid": [(200, 7.0), (400, 6.0)]}
    figure = drawn("curves", log, result_b, result_c, f"mine={log}")
    assert_legible(figure)
    assert labelled(figure) == ["a-run (5.25)", "B (6.00)", "c (7.50)", "mine (5.25)"]
    first, second = figure.axes[0].lines[:2]
    assert first.get_ydata().tolist() == [6.5, 5.25] and second.get_xdata().tolist() == [200, 400]
    assert figure.axes[0].get_ylabel() == "validation nll (bits a token)"


def test_one_training_has_its_training_loss_too(log):
    figure = drawn("curves", log)
    assert_legible(figure)
    assert labelled(figure) == ["training", "validation"]
    training, validation = figure.axes[0].lines
    assert len(training.get_xdata()) == 40 and validation.get_ydata().tolist() == [6.5, 5.25]
    low, high = figure.axes[0].get_ylim()
    assert low < 5 and 6.5 < high < 9


def test_many_curves():
    curves = {
        f"_a rather ${i}$ long name of system": {"train": [], "valid": [(1, 9 - i), (2, 8 - i)]}
        for i in range(14)
    }
    figure = draw_curves(curves, "Fourteen of them")
    assert_legible(figure)
    assert labelled(figure)[13] == "_a rather $13$ long name of system (-5.00)"
    looks = {(line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines}
    assert len(looks) == 14


def test_curves_refused(log, tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_text('{"label": "x", "valid_curve": [[1, 2.0], [3')
    (tmp_path / "none.log").write_text("no curve here\n")
    (tmp_path / "no_nll.log").write_text(TRAIN.format(1, 2).replace("nll_loss", "wps"))
    (tmp_path / "binary.log").write_bytes(b"\xff\xfe\x00")
    result(tmp_path / "odd.json", valid_curve=[[1, 2, 3]])
    result(tmp_path / "empty.json", valid_curve=[])
    result(tmp_path / "other.json", scores={})
    result(tmp_path / "list.json")
    (tmp_path / "list.json").write_text("[1, 2]")
    cases = [
        (cut, "cut.json: not a JSON file"),
        (tmp_path / "none.log", "none.log: no learning curve"),
        (tmp_path / "no_nll.log", "no_nll.log: no learning curve"),
        (tmp_path / "binary.log", "binary.log: not a log"),
        (tmp_path / "gone.log", "gone.log: No such file"),
        (tmp_path / "gone.json", "gone.json: No such file"),
        (tmp_path / "odd.json", "odd.json: no valid_curve"),
        (tmp_path / "empty.json", "empty.json: no learning curve"),
        (tmp_path / "other.json", "other.json: no valid_curve"),
        (tmp_path / "list.json", "list.json: no valid_curve"),
        (log, "a second curve called a-run"),
    ]
    for path, said in cases:
        refused(said, "plot", "curves", log, path, "-o", tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()


@pytest.fixture
def texts(tmp_path):
    """References, and a system that leaves out the last word of each."""
    words = [f"word{i}" for i in range(12)]
    references = [" ".join(words[: 4 + i % 9]) for i in range(40)]
    (tmp_path / "ref").write_text("\n".join(references) + "\n")
    (tmp_path / "hyp").write_text("\n".join(r.rsplit(" ", 1)[0] for r in references) + "\n")
    (tmp_path / "short").write_text("a\nb\n")
    return tmp_path


def test_bleu_by_length(texts):
    words = [f"the same={texts / 'ref'}", f"shorter={texts / 'hyp'}", "--references", texts / "ref"]
    files = ["-o", texts / "a.png", "-o", texts / "a.svg"]
    assert resmlp("plot", "length", *words, *files).status == 0
    assert (texts / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (texts / "a.svg").read_text()
    figure = drawn("length", *words, "--edges", 6, 9)
    assert_legible(figure)
    same, shorter = figure.axes[0].lines
    assert np.allclose(same.get_ydata(), 100) and (np.array(shorter.get_ydata()) < 95).all()
    assert labelled(figure) == ["the same", "shorter"]
    assert figure.get_suptitle() == "BLEU by sentence length"
    for title in ("mine", ""):  # a heading of one's own, or none
        assert drawn("length", *words, "--title", title).get_suptitle() == title


def test_bleu_by_length_of_a_language_without_spaces(tmp_path):
    lines = ["我们今天去公园散步。", "他的父亲是一名医生。"]
    (tmp_path / "ref").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "hyp").write_text("\n".join(lines).replace("父亲", "母亲"), encoding="utf-8")
    words = (f"a={tmp_path / 'hyp'}", "--references", tmp_path / "ref")
    (line,) = drawn("length", *words, "-l", "en-zh").axes[0].lines
    assert line.get_ydata()[0] > 50
    refused("-l: zh: give two languages", "plot", "length", *words, "-l", "zh", "-o", "a.png")


def test_bleu_by_length_as_differences(texts):
    words = [f"same={texts / 'ref'}", f"shorter={texts / 'hyp'}", "--references", texts / "ref"]
    whole = drawn("length", *words, "--edges", 6).axes[0].lines
    figure = drawn("length", *words, "--edges", 6, "--baseline", "same")
    assert_legible(figure)
    first, second = figure.axes[0].lines
    assert set(first.get_ydata()) == {0} and "difference from\nsame" in figure.axes[0].get_ylabel()
    np.testing.assert_allclose(second.get_ydata(), whole[1].get_ydata() - whole[0].get_ydata())


def test_a_system_looks_alike_in_every_picture():
    alone = looks(["ResMLP, Toeplitz"])["ResMLP, Toeplitz"]
    among = looks(["Transformer", "ResMLP", "ours", "ResMLP, Toeplitz", "ResMLP, 6 + 6"])
    assert among["ResMLP, Toeplitz"] == alone
    assert among["ResMLP, 6 + 6"]["color"] == among["ResMLP"]["color"] != alone["color"]
    assert among["ResMLP, 6 + 6"]["linestyle"] != among["ResMLP"]["linestyle"]
    assert among["ours"] == look(0)
    assert in_words("resmlp_mt_toeplitz_12 int8") == "ResMLP, Toeplitz, 12 + 12 int8"
    assert [in_words(name) for name in ("transformer", "x")] == ["Transformer", "x"]


def test_bleu_by_length_refused(texts):
    cases = [
        ("nameless: give each system as NAME=FILE", ["nameless"]),
        ("NAME=FILE", [f"={texts / 'hyp'}"]),
        ("called a already", [f"a={texts / 'hyp'}", f"a={texts / 'ref'}"]),
        ("short has 2 lines but", [f"a={texts / 'short'}"]),
        ("gone: No such file", [f"a={texts / 'gone'}"]),
        ("edges 9 3", [f"a={texts / 'hyp'}", "--edges", 9, 3]),
        ("--baseline b: name one of a", [f"a={texts / 'hyp'}", "--baseline", "b"]),
    ]
    for said, words in cases:
        rest = ["--references", texts / "ref", "-o", texts / "a.png"]
        refused(said, "plot", "length", *words, *rest)
    assert not (texts / "a.png").exists()


def test_lengths_and_headings():
    ours = [
        {"from": 0, "to": 10, "sentences": 1234, "bleu": 20.0},
        {"from": 11, "to": 20, "sentences": 0, "bleu": None},
        {"from": 21, "to": None, "sentences": 7, "bleu": 30.0},
    ]
    figure = draw_by_length({"ours": ours}, "source", "heading")
    (axes,) = figure.axes
    labels = [text.get_text() for text in axes.get_xticklabels()]
    assert labels == ["0-10\n1,234", "11-20\n0", "over 20\n7"]
    assert "words of the source" in axes.get_xlabel() and figure.get_suptitle() == "heading"
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [20, np.nan, 30])


@pytest.mark.parametrize("buckets, width", [(1, COLUMN), (6, COLUMN), (14, PAGE)])
def test_room_for_the_buckets(buckets, width):
    rows = [
        {"from": 101 + 10 * i, "to": 110 + 10 * i, "sentences": 123456, "bleu": i / 2}
        for i in range(buckets)
    ]
    systems = {f"a system of a long name, {number}": rows for number in range(5)}
    assert_legible(draw_by_length(systems, "reference", "a heading"), width)
