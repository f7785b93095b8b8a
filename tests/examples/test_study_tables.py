"""The tables and pictures of the study, on made-up results."""

from pathlib import Path

import pictures
import pytest
from picture_inputs import assert_legible
from study import draw, plan, tables
from study.result_files import load

from resmlp_mt.errors import UserError
from resmlp_mt.files import write_json


def result(name, target="de", table="table5", seed=1, bleu=30.0, nll=2.5):
    """What the study writes for a row, as far as the tables read it."""
    scores = {"bleu": bleu, "chrf": 50.0, "compound_split_bleu": 31.0, "tokenized_bleu": 32.0}
    return {
        "row": f"{table}.en-{target}.{name}.{seed}",
        "table": table,
        "label": name,
        "recipe": {"target": target, "seed": seed, "updates": 9, "train_options": []},
        "cost": {"cpu_minutes": 15.2},
        "parameters": 1500000,
        "valid_nll": {"last": nll},
        "valid_curve": [[3, 4.0], [9, nll]],
        "scores": {plan.TEST: scores},
    }


def as_results(*some):
    return {r["row"]: r for r in some}


def bootstrap(difference, p):
    return {"bleu": {"system": 30 + difference, "baseline": 30, "p_value": p}}


def test_table5():
    results = as_results(
        result("transformer-3"),
        result("toeplitz-3", bleu=31),
        result("toeplitz-3", seed=2, bleu=32, nll=2.4),
    )
    results["compare"] = {"rows": {"table5.en-de.toeplitz-3.1": bootstrap(1.04, 0.0004)}}
    results["compare"]["rows"]["table5.en-de.toeplitz-3.2"] = bootstrap(-0.5, 0.25)
    results["speed"] = {"rows": {"toeplitz-3": {"relative": {"median": 1.5}}}}
    head, rows = tables.table5(results, "en-de")
    assert rows == [
        ["Transformer", "1.50", "9", "15", "1", "2.50", "30.0", "-", "50.0", "31.0", "-"],
        [
            *("ResMLP, Toeplitz", "1.50", "9", "15 (15 .. 15)", "1, 2", "2.45 (2.40 .. 2.50)"),
            *("31.5 (31.0 .. 32.0)", "+1.0 (p < 0.001); -0.5 (p = 0.250)"),
            *("50.0 (50.0 .. 50.0)", "31.0 (31.0 .. 31.0)", "1.50"),
        ],
    ]
    assert "tokenized BLEU, compounds split" in head
    head, rows = tables.table5(as_results(result("lstm", target="fr")), "en-fr")
    assert "tokenized BLEU" in head and "32.0" in rows[0]


def test_gated():
    runs = [result("toeplitz-3"), result("conv-3", bleu=31), result("conv-3", seed=2, bleu=32)]
    runs.append(result("gated-3", table="gated", bleu=33))
    for one in runs:
        for split in ("valid", *plan.TESTS.values()):
            one["scores"].setdefault(split, {"bleu": 29.0})
    repeats = {"rows": {"gated.en-de.gated-3.1": {"repeats": 0.041}}}
    _, rows = tables.gated({**as_results(*runs), "repetitions": repeats})
    assert [row[-1] for row in rows] == ["-", "-", "4.1"]
    assert [row[-5] for row in rows] == ["30.0", "31.5 (31.0 .. 32.0)", "33.0"]
    assert rows[1][4] == "1, 2" and rows[2][:3] == ["ResMLP, gated", "1.50", "9"]


def test_repetitions():
    runs = [result("toeplitz-3", bleu=31), result("toeplitz-3", seed=2), result("transformer-3")]
    without = {"repeats": 0.0, "size": 4, "bleu": 32.0}
    found = {r["row"]: {"repeats": 0.05, "words": 1.0, "forbidden": without} for r in runs[1:]}
    found[runs[0]["row"]] = {"repeats": 0.025, "words": 1.0}
    found[runs[0]["row"]]["forbidden"] = {**without, "against": bootstrap(0.52, 0.03)}
    found = {"rows": found, "references": {"de": 0.007, "fr": 0.004}}
    _, rows = tables.repetitions({**as_results(*runs), "repetitions": found})
    assert [" | ".join(row) for row in rows] == [
        "en-de | (the references) | 0.7 | - | - | - | - | -",
        "en-de | Transformer | 5.0 | 30.0 | 4 | 0.0 | 32.0 | -",
        "en-de | ResMLP, Toeplitz | 3.8 (2.5 .. 5.0) | 30.5 (30.0 .. 31.0) | 4, 4 | "
        "0.0 (0.0 .. 0.0) | 32.0 (32.0 .. 32.0) | +0.5 (p = 0.030)",
        "en-fr | (the references) | 0.4 | - | - | - | - | -",
    ]


def test_lengths_are_means_over_the_seeds():
    results = as_results(result("conv-3"), result("conv-3", seed=2), result("lstm"))
    buckets = [{"from": 0, "to": 8, "sentences": 9}, {"from": 9, "to": None, "sentences": 1}]
    found = {"table5.en-de.conv-3.1": [31.0, 22.0], "table5.en-de.conv-3.2": [32.0, 23.0]}
    results["lengths"] = {"buckets": buckets, "rows": found, "words_of": "source"}
    head, rows = tables.lengths(results)
    assert head == ["pair", "system", "0-8 (9)", "over 8 (1)"]
    assert rows == [["en-de", "ResMLP, convolutions", "31.5", "22.5"]]


def test_every_picture_of_the_results_is_legible():
    results = load()
    for make in draw.PICTURES.values():
        assert_legible(make(results))
    curves = draw.learning_curves(results, "en-de").axes[0]
    assert len(curves.lines) == len(plan.SYSTEMS) and "CPU minutes" in curves.get_xlabel()


def test_the_pictures_in_the_pages_are_those_that_are_drawn(tmp_path):
    """``make pictures`` draws each committed picture: none is left of another time."""
    root = Path(__file__).resolve().parents[2]
    committed = ("examples/multi30k/study/pictures", "scripts/results")
    committed += ("examples/quickstart/pictures", "examples/mixed/results")
    drawn = [tmp_path / str(number) for number in range(len(committed))]
    for folder in drawn:
        folder.mkdir()
    pictures.draw_all(*drawn)
    for folder, made in zip(committed, drawn):
        names = [{path.name for path in some.glob("*.png")} for some in (root / folder, made)]
        assert names[0] == names[1] != set()


def test_a_result_file_cut_off_is_named(tmp_path):
    (tmp_path / "table5").mkdir()
    broken = tmp_path / "table5" / "x.1.json"
    for content in ([1], {"row": "x.1"}):
        write_json(broken, content)
        with pytest.raises(UserError, match=r"x\.1\.json: not a result of the study"):
            load(tmp_path)
    broken.write_text('{"row": "x.1", "rec')
    with pytest.raises(UserError, match=r"x\.1\.json"):
        load(tmp_path)
