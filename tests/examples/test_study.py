"""The study: trainings compared by updates, scored, published, in tables and in sentences."""

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import corpus
import curves
import grammar
import publish
import pytest
import results
import scoring
import study
import tables
from fairseq_programs import ROOT
from prepare_text import write_pairs

from resmlp_mt.cli.main import run_main

PUBLISHED = ("dict.en.txt", "dict.fr.txt", "model.pt", "search.json", "spm.model", "text.json")


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Results of its own."""
    monkeypatch.setattr(results, "FILE", tmp_path / "results.jsonl")
    results.FILE.touch()
    return results.FILE


@pytest.fixture
def call(tmp_path, monkeypatch, file):
    """Runs a program of the study."""

    def run(program, *words):
        given = [*words, "--out", tmp_path / "out"]
        monkeypatch.setattr("sys.argv", ["study.py", *map(str, given)])
        return run_main(program.main)

    return run


@pytest.mark.soak
def test_the_study(tmp_path, monkeypatch, call):
    """On 200 sentences, with layers of 16 channels."""
    sizes = {"train": 200, "valid.a": 10, "test.a": 12, "test.b": 10}
    for split, pairs in grammar.generate(1, sizes).items():
        write_pairs(tmp_path, split, ("en", "fr"), pairs)
    monkeypatch.setattr(corpus, "COVERAGE", 1.0)
    for name, value in {"LENPEN": (1.0,), "REPEATS": 2, "TIMED": 30}.items():
        monkeypatch.setattr(study, name, value)
    monkeypatch.setitem(study.SIZES, "0.6", (120, 16, 1, 16))
    pair = ("--pair", "en-fr")
    (tmp_path / "train.origin").write_text("twice\n" * 50 + "half\n" * 150)
    words = (*pair, "--size", "0.6", "--augment", "--from", tmp_path, "--share")
    assert call(corpus, *words, "twise=2") == 1
    assert call(corpus, *words, "twice=2", "half=0.5") == 0
    pairs = list(zip(*(p.read_text().splitlines() for p in sorted(tmp_path.glob("train.??")))))
    text = tmp_path / "out/en-fr/text"
    drawn = zip(*(p.read_text().splitlines() for p in sorted(text.glob("train.??"))))
    taken, count = json.loads((text / "origins.json").read_text()), Counter(drawn)
    assert taken["twice"] == [100, 50] and 50 < taken["half"][0] < 100
    assert all(count[pair] >= 2 for pair in pairs[:50]) and count.keys() <= set(pairs)
    one = (*pair, "--size", "0.6", "--rate", "0.01", "--updates", "20")
    assert call(study, "score", "gated", *one) == 1  # nothing is trained yet
    assert call(publish, "--card", "en-fr", "--model", tmp_path / "model") == 1  # nor published
    assert call(study, "train", "transformer", "gated", *one, "--set", "dropout=0.2") == 0
    settings = json.loads((tmp_path / "out/en-fr/gated-0.6-0.01.1/20/train.json").read_text())
    assert settings["settings"]["--lr"] == ["0.01"]
    assert settings["settings"]["--dropout"] == ["0.2"]
    assert call(study, "lead", *pair) == 0
    assert call(study, "cost", "transformer", "gated", *pair, "--size", "0.6") == 0
    seconds = results.load()["cost/en-fr/0.6"]["numbers"]["seconds"]
    assert all(0 < low <= middle <= high for low, middle, high in seconds.values())
    assert call(study, "score", "transformer", "gated", *one) == 0
    names = [
        f"{kind}{s}-0.6-0.01.1/20"
        for kind in ("curve/en-fr/", "en-fr/")
        for s in ("gated", "transformer")
    ]
    assert set(results.load()) == {"cost/en-fr/0.6", *names}
    numbers = results.load()["en-fr/gated-0.6-0.01.1/20"]["numbers"]
    assert set(numbers["scores"]) == {"a", "b"} and set(numbers["lenpens"]) == {"1.0"}
    assert set(numbers["against"]) == {"transformer"} and numbers["updates"] == 20
    against = (*one, "--against", "en-fr/transformer-0.6-0.01.1/20")
    assert call(study, "score", "gated", *against) == 0
    assert results.load()["en-fr/gated-0.6-0.01.1/20"]["numbers"]["against"] == numbers["against"]
    model = ("--model", tmp_path / "model")
    assert call(publish, "en-fr/gated-0.6-0.01.1/20", *model) == 0
    published = results.load()["model/en-fr"]["numbers"]
    assert tuple(published["files"]) == PUBLISHED and published["damage"]["alone"][1] == 70
    assert all(set(bleu) == {"a", "b"} for bleu in published["exports"].values())
    assert str(tmp_path).encode() not in (tmp_path / "model" / "model.pt").read_bytes()
    assert call(publish, "--card", "en-fr", *model) == 0
    assert results.load()["model/en-fr"]["numbers"] == json.loads(json.dumps(published))
    (stored,) = (tmp_path / "translations").glob("*gated*.gz")
    rows = [row.split("\t") for row in gzip.decompress(stored.read_bytes()).decode().splitlines()]
    assert Counter(test for test, _ in rows) == {"a": 12, "b": 10}


def write_log(out: Path, name: str, bits, updates: int, tokens: int = 9) -> None:
    """A training whose loss after n updates is *bits* of n."""
    log = out / name / "train.log"
    log.parent.mkdir(parents=True)
    rows = ["| num. shared model params: 5,644,008 (num. trained: 5,644,008)"]
    for n in range(10, updates + 1, 10):
        row = {"num_updates": n, "nll_loss": bits(n) + 0.1, "wpb": tokens + n % 7, "bsz": 2}
        rows.append(f"| INFO | train_inner | {json.dumps(row)}")
        if n % 500 == 0:
            row = {"valid_num_updates": n, "valid_nll_loss": bits(n)}
            rows.append(f"| INFO | valid | {json.dumps(row)}")
    log.write_text("\n".join(rows) + "\n")


def falling(factor):
    """A loss that takes *factor* times as many updates as that of factor 1."""
    return lambda updates: 3 + 10 * (updates / factor) ** -0.5


def test_time_to_the_same_loss(tmp_path, call):
    """At the best rate of each; by seed; a bound where the Transformer did not get there."""
    out = tmp_path / "out" / "en-de"
    write_log(out, "transformer-0.6-0.012.1/8000", falling(2.5), 8000)
    write_log(out, "transformer-0.6-0.012.2/8000", falling(2.0), 8000)
    write_log(out, "transformer-0.6-0.003.1/2000", falling(9.0), 2000)
    for seed, rate, factor in ((1, 0.006, 1.0), (2, 0.006, 1.0), (1, 0.012, 1.5)):
        write_log(out, f"gated-0.6-{rate}.{seed}/8000", falling(factor), 8000)
    write_log(out, "gated-0.6-0.006.1/9000", falling(4), 500)  # a shorter one counts for nothing
    write_log(out, "hyena-0.6-0.006-other_text.1/500", falling(1), 500, tokens=20)  # no rival
    assert call(study, "lead", "--pair", "en-de") == 0
    found = results.load()
    numbers = found["curve/en-de/gated-0.6-0.006.2/8000"]["numbers"]
    assert numbers["valid_curve"][1] == [1000, falling(1)(1000)]
    assert numbers["parameters"] == 5_644_008 and numbers["size"] == "0.6"
    ((group, system),) = curves.compared(found)
    assert system == "gated" and group.rates("transformer")[0] == 2000
    assert list(group.best("transformer")) == [1, 2]
    ratios = group.ratios("gated", 2000)
    assert [r for r, _ in ratios] == [pytest.approx(2.5, rel=0.01), pytest.approx(2, rel=0.01)]
    assert group.ratios("gated", 3999) == [(8000 / 3999, False), (pytest.approx(2, rel=0.01), True)]
    assert group.ratios("gated", 16000) == [] == group.ratios("gated", 400)
    results.append("cost/en-de/0.6", {"seconds": {"transformer": [1, 3, 9], "gated": [1, 2, 9]}})
    row = tables.time_table(results.load()).splitlines()[3]
    ratios = "2.25 (2.00 .. 2.50) | 2.25 (2.00 .. 2.50) | > 2.00 | > 1.00 | > 1.50"
    assert row == f"| En-De, 0.6 million, gated | {ratios} |"
    assert curves.shown_ratio([(2, True)]) == "2.00"
    front = tables.TABLES["front time"](results.load()).splitlines()
    both = "2.25 (2.00 .. 2.50)"
    assert front[3:] == [f"| En-De, 0.6 million | {both} | {both} | > 2.00 | > 3.00 |"]
    assert "0.006: 3.11*, 0.012: 3.14 after 8,000 | 3.32 |" in tables.loss_table(results.load())
    assert tables.value(found, "times of en-de/0.6/ 2000") == pytest.approx(2.25, rel=0.01)


def test_other_batches_are_refused(tmp_path, call, capsys):
    out = tmp_path / "out" / "en-de"
    assert call(study, "lead", "--pair", "en-de") == 1
    write_log(out, "transformer-0.6-0.012.1/800", falling(2), 800)
    write_log(out, "gated-0.6-0.012.1/800", falling(1), 800, tokens=10)
    assert call(study, "lead", "--pair", "en-de") == 1
    assert "its batches are not those of" in capsys.readouterr().err
    write_log(out, "gated/800", falling(1), 800)
    assert call(study, "lead", "--pair", "en-de") == 1
    assert "gated/800: must end in SYSTEM-SIZE-RATE" in capsys.readouterr().err


def test_a_training_has_the_name_of_its_folder():
    for rate, label in ((0.012, ""), (1e-05, ""), (0.004, "large-dropout=0.05")):
        training = study.Training("en-de", "gated", "5.6", rate, label, 2, 6000)
        assert study.Training.at(Path("/x", training.name)) == training


def test_a_result_takes_the_place_of_that_of_its_name(file, monkeypatch):
    monkeypatch.setattr("sys.argv", [f"{ROOT}/scripts/benchmark", "decode", "--beam", "4", "/a/b"])
    for name, speed in (("speed/x", 111), ("speed/y", 2), ("speed/x", 3)):
        results.append(name, {"speed": speed}, 7)
    found = results.load()
    assert list(found) == ["speed/y", "speed/x"] and len(file.read_text().splitlines()) == 2
    assert found["speed/x"]["numbers"] == {"speed": 3} and found["speed/x"]["seed"] == 7
    assert found["speed/x"]["command"] == "python scripts/benchmark decode --beam 4 b"
    assert found["speed/x"]["commit"] and found["speed/x"]["machine"]


def test_what_the_study_counts():
    assert scoring.repeats("in a house in a house") and not scoring.repeats(
        "in a house in a garden"
    )
    assert scoring.signatures()["chrf"].startswith("nrefs:1|")


def scored(system, rate, seed, loss):
    numbers = {"pair": "en-de", "size": "5.6", "label": "", "updates": 9, "system": system}
    numbers |= {"rate": rate, "scores": {}, "valid_curve": [[9, loss]]}
    return {"numbers": numbers, "seed": seed}


def test_systems_are_compared_on_the_seeds_of_all_at_their_best_rate():
    of = [("a", 1, 1, 5), ("a", 2, 2, 4), ("a", 3, 2, 3), ("b", 1, 2, 9)]
    found = tables.scored({str(each): scored(*each) for each in of})[("en-de", "5.6", "", 9)]
    assert {s: [n["rate"] for n in some] for s, some in found.items()} == {"a": [3], "b": [1]}
    assert tables.scored({"alone": scored(*of[0])}) == {}


CLAIMS = """settings = ['\\d+ layers']
[[claim]]
page = "x.md"
text = "is {:.0f} minutes and {:.2f} loss"
values = ["minutes of a minus b and c", "curve/-1/1 of a"]
"""


@pytest.fixture
def claimed(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "CLAIMS", tmp_path / "claims.toml")
    tables.CLAIMS.write_text(CLAIMS)
    minutes = {"a": 9, "b": 1, "c": 3}
    return {name: {"numbers": {"minutes": n, "curve": [[1, 2.5]]}} for name, n in minutes.items()}


def test_numbers_in_sentences_come_from_the_results(claimed):
    page = "With 6 layers it\nis 5\nminutes and -0.1 loss.\n"
    filled = tables.fill("x.md", page, claimed)
    assert filled == "With 6 layers it\nis 7\nminutes and 2.50 loss.\n"
    assert tables.fill("x.md", filled, claimed) == filled and tables.fill("y.md", page, {}) == page
    assert tables.loose_numbers("x.md", filled) == []
    more = filled + "In 2014 `8 a` and [x](9.md) gave 3.5, not 1,000.\n| 4 |\n```\n7\n```\n"
    assert tables.loose_numbers("x.md", more) == ["3.5", "1,000"]


@pytest.mark.parametrize(
    "page, old, new, said",
    [
        ("is 5 minutes", "", "", "not once"),
        ("is 5 minutes and 2 loss. It is 5 minutes and 2 loss.", "", "", "not once"),
        ("is 5 minutes and 2 loss", '"curve/-1/1 of a"', "", "not once, with a value for each"),
        ("is 5 minutes and 2 loss", "1 of a", "1 of d", "1 of d: results.jsonl has no such number"),
        (
            "is 5 minutes and 2 loss",
            "curve/",
            "lost/",
            "lost/-1/1 of a: results.jsonl has no such number",
        ),
        ("<!-- table x -->1<!-- / -->", "", "", "<!-- table x -->: no such table"),
    ],
)
def test_claims_that_do_not_hold_are_refused(claimed, page, old, new, said):
    tables.CLAIMS.write_text(CLAIMS.replace(old, new) if old else CLAIMS)
    with pytest.raises(tables.UserError, match=re.escape(said)):
        tables.fill("x.md", page, claimed)
