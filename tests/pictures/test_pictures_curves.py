"""Learning curves, and BLEU by length and by share pruned: pictures out of logs and results."""

import json

import numpy as np
import plot
import pytest
from picture_inputs import COLUMN, SMALLEST, assert_legible, call

from resmlp_mt.pictures import make
from resmlp_mt.pictures.curves import draw_curves, read_curves
from resmlp_mt.pictures.pruning import draw_pruning

TRAIN = '2020-01-01 00:00:00 | INFO | train_inner | {{"num_updates": "{}", "nll_loss": "{}"}}\n'
VALID = (
    '2020-01-01 00:00:00 | INFO | valid | {{"valid_num_updates": "{}", "valid_nll_loss": "{}"}}\n'
)


@pytest.fixture
def log(tmp_path):
    """A log of two validations in a run's folder."""
    folder = tmp_path / "a-run" / "train"
    folder.mkdir(parents=True)
    lines = [TRAIN.format(i, 9 - i / 100) for i in range(10, 401, 10)]
    lines += [VALID.format(200, 6.5), VALID.format(400, 5.25)]
    (folder / "train.log").write_text("something else\n" + "".join(lines))
    return folder / "train.log"


def result(path, **values):
    path.write_text(json.dumps(values))
    return path


def test_curves_and_their_names(log, tmp_path):
    labelled = result(tmp_path / "b.json", label="B", valid_curve=[[200, 7.0], [400, 6.0]])
    unlabelled = result(tmp_path / "c.json", valid_curve=[[200, 7.5]])
    found = read_curves([log, labelled, unlabelled, f"mine={log}"])
    assert list(found) == ["a-run", "B", "c", "mine"]
    assert found["mine"]["valid"] == [(200, 6.5), (400, 5.25)]
    assert len(found["mine"]["train"]) == 40 and found["mine"]["train"][-1] == (400, 5.0)
    assert found["B"] == {"train": [], "valid": [(200, 7.0), (400, 6.0)]}
    figure = make.curves([log, labelled, unlabelled, f"mine={log}"])
    assert_legible(figure)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["a-run (5.25)", "B (6.00)", "c (7.50)", "mine (5.25)"]
    first, second = figure.axes[0].lines[:2]
    assert first.get_ydata().tolist() == [6.5, 5.25] and second.get_xdata().tolist() == [200, 400]
    assert figure.axes[0].get_ylabel() == "validation nll (bits a token)"


def test_one_training_has_its_training_loss_too(log):
    figure = make.curves([log])
    assert_legible(figure)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["training", "validation"]
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
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts[13] == "_a rather $13$ long name of system (-5.00)"
    looks = {(line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines}
    assert len(looks) == 14


def test_curves_refused(log, tmp_path, monkeypatch, capsys):
    cut = tmp_path / "cut.json"
    cut.write_text('{"label": "x", "valid_curve": [[1, 2.0], [3')
    (tmp_path / "none.log").write_text("no curve here\n")
    (tmp_path / "no_nll.log").write_text(TRAIN.format(1, 2).replace("nll_loss", "loss"))
    (tmp_path / "binary.log").write_bytes(b"\xff\xfe\x00")
    result(tmp_path / "odd.json", valid_curve=[[1, 2, 3]])
    result(tmp_path / "empty.json", valid_curve=[])
    result(tmp_path / "other.json", scores={})
    result(tmp_path / "list.json")
    (tmp_path / "list.json").write_text("[1, 2]")
    cases = [
        (cut, "cut.json: not a JSON file"),
        (tmp_path / "none.log", "none.log: no learning curve"),
        (tmp_path / "no_nll.log", "no_nll.log: not a log of fairseq-train with nll_loss"),
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
        status = call(plot, monkeypatch, "curves", log, path, "-o", tmp_path / "a.png")
        error = capsys.readouterr().err.strip()
        assert status == 1 and said in error and "\n" not in error, error
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


def test_bleu_by_length(texts, monkeypatch, capsys):
    seen, draw = [], make.draw_by_length

    def drawn(*args):
        seen.append(draw(*args))
        return seen[-1]

    monkeypatch.setattr(make, "draw_by_length", drawn)
    systems = [f"the same={texts / 'ref'}", f"shorter={texts / 'hyp'}"]
    options = ["--references", texts / "ref", "--edges", 6, 9, "-o", texts / "a.png"]
    assert call(plot, monkeypatch, "length", *systems, *options, "-o", texts / "a.svg") == 0
    assert (texts / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (texts / "a.svg").read_text()
    (axes,) = seen[0].axes
    same, shorter = axes.lines
    assert np.allclose(same.get_ydata(), 100) and (np.array(shorter.get_ydata()) < 95).all()
    (legend,) = seen[0].legends
    assert [text.get_text() for text in legend.get_texts()] == ["the same", "shorter"]
    assert seen[0].get_suptitle() == "BLEU by sentence length"
    # reduced to a column of 8 cm, no letter is below 6 points
    assert call(plot, monkeypatch, "length", *systems, *options[:2], "-o", texts / "b.png") == 0
    width = int.from_bytes((texts / "b.png").read_bytes()[16:20], "big") / 300
    axes = seen[-1].axes[0]
    letters = [text.get_fontsize() for text in [*axes.get_xticklabels(), axes.xaxis.label]]
    letters += [text.get_fontsize() for text in axes.get_yticklabels()]
    assert min(letters) * COLUMN / width >= SMALLEST
    assert_legible(seen[-1])
    # a heading of one's own, or none
    for title in ("mine", ""):
        arguments = [*systems, *options[:2], "--title", title, "-o", texts / "b.png"]
        assert call(plot, monkeypatch, "length", *arguments) == 0
        assert seen[-1].get_suptitle() == title


def test_bleu_by_length_refused(texts, monkeypatch, capsys):
    cases = [
        (["nameless"], "nameless: give each system as NAME=FILE"),
        ([f"={texts / 'hyp'}"], "NAME=FILE"),
        ([f"a={texts / 'hyp'}", f"a={texts / 'ref'}"], "called a already"),
        ([f"a={texts / 'short'}"], "short: 2 translations but"),
        ([f"a={texts / 'gone'}"], "gone: No such file"),
    ]
    for systems, said in cases:
        options = ["--references", texts / "ref", "-o", texts / "a.png"]
        assert call(plot, monkeypatch, "length", *systems, *options) == 1
        error = capsys.readouterr().err.strip()
        assert said in error and "\n" not in error, error
    system = f"a={texts / 'hyp'}"
    assert call(plot, monkeypatch, "length", system, *options[:2], "-o", texts / "a.gif") == 1
    assert f"{texts / 'a.gif'}: name a .png or .svg file" in capsys.readouterr().err
    assert not (texts / "a.png").exists()


def point(which, threshold, removed, bleu):
    return {"which": which, "threshold": threshold, "removed": removed, "bleu": bleu}


def test_pruning_picture(tmp_path, monkeypatch, capsys):
    points = [point("none", 0, 0, 30), point("A", 0.2, 0.5, 25), point("A", 0.1, 0.25, 29)]
    points += [point("all", 0.1, 0.2, 28)]
    figure = draw_pruning({"points": points}, "Pruned")
    assert_legible(figure)
    first, second, whole = figure.axes[0].lines
    assert first.get_xdata().tolist() == [0, 25, 50] and first.get_ydata().tolist() == [30, 29, 25]
    assert second.get_xdata().tolist() == [0, 20] and second.get_ydata().tolist() == [30, 28]
    assert set(whole.get_ydata()) == {30}
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["A (positions)", "A, B and C", "not pruned"]

    good = result(tmp_path / "good.json", points=points)
    assert call(plot, monkeypatch, "pruning", good, "-o", tmp_path / "a.png") == 0
    (tmp_path / "cut.json").write_text(good.read_text()[:60])
    result(tmp_path / "other.json", scores={})
    result(tmp_path / "odd.json", points=[{"which": "A"}])
    result(tmp_path / "whole.json", points=points[:1])
    result(tmp_path / "words.json", points=[{**points[1], "bleu": "30"}])
    for name, said in [
        ("cut", "not a JSON file"),
        ("other", "is not a result of prune_sweep.py"),
        ("odd", "is not a result of prune_sweep.py"),
        ("words", "is not a result of prune_sweep.py"),
        ("whole", "no point with weights removed"),
    ]:
        capsys.readouterr()
        arguments = ["pruning", tmp_path / f"{name}.json", "-o", tmp_path / "b.png"]
        assert call(plot, monkeypatch, *arguments) == 1
        error = capsys.readouterr().err
        assert f"{name}.json" in error and said in error
    assert not (tmp_path / "b.png").exists()
