"""The study: its text, trainings compared by updates and scored, tables, numbers in sentences."""

import json
import shutil
from itertools import product
from pathlib import Path

import corpus
import curves
import publish
import pytest
import results
import scoring
import study
import tables
from fairseq_programs import ROOT

from resmlp_mt.cli.main import run_main
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import write_json
from resmlp_mt_runtime.lines import read_text, write_lines


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Results of its own."""
    monkeypatch.setattr(results, "FILE", tmp_path / "results.jsonl")
    results.FILE.touch()
    return results.FILE


def test_its_text(tmp_path):
    """Pairs as often as the share of their origin says, and every third line of the validation
    sets to choose the length penalty."""
    for folder, numbers in (("a", range(3)), ("b", range(3, 5))):
        (tmp_path / folder).mkdir()
        for language in ("en", "de"):
            lines = [f"{language} {n}" for n in numbers]
            for name in ("train", f"valid.of-{folder}", f"test.of-{folder}"):
                write_lines(tmp_path / folder / f"{name}.{language}", lines)
    write_lines(tmp_path / "a" / "train.origin", ["x", "y", "z"])
    homes, out = [tmp_path / "a", tmp_path / "b"], tmp_path / "out"
    tests = corpus.make(homes, out, ("en", "de"), {"x": 2, "y": 0})
    assert tests == ["test.of-a", "test.of-b"]
    found = {path.name: read_text(path) for path in out.glob("*.*")}
    assert sorted(found["train.en"]) == ["en 0", "en 0", "en 2", "en 3", "en 4"]
    assert [line.replace("en", "de") for line in found["train.en"]] == found["train.de"]
    assert found["valid.de"] == [f"de {n}" for n in range(5)]
    assert found["thinned.de"] == ["de 0", "de 3"] and found["test.of-b.en"] == ["en 3", "en 4"]
    corpus.make(homes, tmp_path, ("en", "de"), {"x": 2, "y": 0})  # in the same order
    assert read_text(tmp_path / "train.en") == found["train.en"]
    with pytest.raises(UserError, match="--share w: no such origin"):
        corpus.make(homes, out, ("en", "de"), {"w": 1})


def test_what_was_not_scored_is_not_published(tmp_path, file):
    with pytest.raises(UserError, match="results.jsonl has no en-de/x-5.6-0.1.1/9: study.py score"):
        publish.publish("en-de/x-5.6-0.1.1/9", tmp_path, tmp_path / "model")
    assert not (tmp_path / "model").exists()


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


def test_time_to_the_same_loss(tmp_path, file, monkeypatch, capsys):
    """At the best rate of each; by seed; a bound where the Transformer did not get there."""
    out = tmp_path / "out" / "en-de"
    write_log(out, "transformer-0.6-0.012.1/8000", falling(2.5), 8000)
    write_log(out, "transformer-0.6-0.012.2/13000", falling(2.0), 13000)
    write_log(out, "transformer-0.6-0.003.1/2000", falling(9.0), 2000)
    for seed, rate, factor in ((1, 0.006, 1.0), (2, 0.006, 1.0), (1, 0.012, 1.5)):
        write_log(out, f"gated-ln-0.6-{rate}.{seed}/8000", falling(factor), 8000)
    write_log(out, "attention-0.6-0.012.1/8000", falling(1.5), 8000)
    write_log(out, "transformer-0.6-0.02.1/8000", falling(0.1), 500)  # given up: does not count
    write_log(out, "gated-ln-0.6-0.006.1/9000", falling(4), 500)  # a shorter one counts for nothing
    write_log(out, "hyena-0.6-0.006-other_text.1/500", falling(1), 500, tokens=20)  # no rival
    monkeypatch.setattr("sys.argv", ["study.py", "lead", "--pair=ende"])
    assert run_main(study.main) == 1
    assert "--pair: give two languages, such as en-fr, not ende: " in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["study.py", "lead", "--pair=en-de", f"--out={out.parent}"])
    assert run_main(study.main) == 0
    found = results.load()
    numbers = found["curve/en-de/gated-ln-0.6-0.006.2/8000"]["numbers"]
    assert numbers["valid_curve"][1] == [1000, falling(1)(1000)]
    assert numbers["parameters"] == 5_644_008 and numbers["size"] == "0.6"
    (group,) = curves.compared(found)
    assert len(curves.groups(found)) == 2  # the other text is compared with nothing
    assert group.rates("transformer")[0] == 2000 and curves.setting(group) == "En-De, 0.6 million"
    assert list(group.best("transformer")) == [1, 2]
    ratios = group.ratios("transformer", 2000)
    assert [r for r, _ in ratios] == [pytest.approx(2.5, rel=0.01), pytest.approx(2, rel=0.01)]
    bound, ratio = group.ratios("transformer", 3999)
    assert bound == (8000 / 3999, False) and ratio == (pytest.approx(2, rel=0.01), True)
    ((ratio, reached),) = group.ratios("transformer", 6000)  # "> 1.3" of seed 1 says no more
    assert reached and ratio == pytest.approx(2, rel=0.01)
    assert group.ratios("transformer", 16000) == [] == group.ratios("transformer", 400)
    assert tables.value(found, "times of en-de/0.6/ 2000") == pytest.approx(2.25, rel=0.01)
    with pytest.raises(UserError, match="times of en-de/0.6/ 3999: results.jsonl has no such"):
        tables.value(found, "times of en-de/0.6/ 3999")  # a bound
    for tokens, rows in ((20, 8000), (9, 5)):  # other batches, none
        write_log(out, f"gated-ln-0.6-0.003.1/{rows}", falling(1), rows, tokens)
        assert run_main(study.main) == 1
        assert "train.log: its batches are not those of " in capsys.readouterr().err
        shutil.rmtree(out / "gated-ln-0.6-0.003.1")


def test_systems_are_trained_scored_and_tested(tmp_path, file, monkeypatch):
    """With stand-ins for our commands: one system translates well with one length penalty."""
    asked, text = [], tmp_path / "en-fr" / "text"
    for name, side in product(("thinned", "test.of-a"), ("en", "fr")):
        text.mkdir(parents=True, exist_ok=True)
        write_lines(text / f"{name}.{side}", [f"{side} u v w x {n} y" for n in range(9)])
    data = tmp_path / "en-fr" / "data-2000" / "data-bin"
    data.mkdir(parents=True)
    write_json(data / "report.json", {"pairs": {"train": 1_234_567}})

    def resmlp_mt(command, *words):
        given = dict(zip(words, words[1:]))
        if command == "train":
            asked.append(" ".join(map(str, words)))
            write_log(given["--out"].parent, given["--out"].name, falling(1), 500)
        elif command == "average":
            given["--output"].touch()
        else:
            good = given["--lenpen"] == 1.0 and "gated-ln" in str(given["--path"])
            lines = read_text(Path(f"{given['--input'].removesuffix('.en')}.fr"))
            write_lines(given["--output"], lines if good else [line[:-2] for line in lines])

    monkeypatch.setattr(study, "resmlp_mt", resmlp_mt)
    words = "transformer=0.01 resmlp gated-ln=0.02 --pair en-fr --size 0.6 --updates 500 --seed 3"
    for action in ("train", "score"):
        argv = ["study.py", action, *words.split(), "--out", str(tmp_path)]
        monkeypatch.setattr("sys.argv", argv)
        assert run_main(study.main) == 0
    shared = "--seed 3 --max-update 500 --threads 1 --precision fp32 -- --cpu"
    given = (("0.01", 192), ("0.004", 336), ("0.02", 192))
    for command, (rate, hidden) in zip(asked, given, strict=True):
        assert f"{shared} --lr={rate} " in command
        assert f"-ffn-embed-dim={hidden} --decoder-layers=2 " in command
    found = results.load()
    last = found["en-fr/gated-ln-0.6-0.02.3/500"]["numbers"]
    assert (last["lenpen"], last["pairs"], last["scores"].keys()) == (1.0, 1.2, {"of-a"})
    assert last["scores"]["of-a"]["bleu"] == pytest.approx(100)
    tested = last["against"]["transformer"]["of-a"]
    assert last["against"].keys() == {"transformer", "resmlp"}
    assert tested["difference"] > 5 and 0 < tested["p"] < 0.05


def test_the_time_of_an_update(tmp_path, file, monkeypatch):
    """Of each batch the median, and the first ones do not count."""
    left = {"transformer": [[9, 3, 4], [9, 3, 4], [1, 7, 8]], "gated-ln": [[9, 2, 1]] * 3}

    def train(command, *words):
        system = "transformer" if "transformer_small" in words else "gated-ln"
        rows = [
            f"| train_inner | {json.dumps({'num_updates': 10 * n, 'wpb': 60, 'wps': 60 / seconds})}"
            for n, seconds in enumerate(left[system].pop(0), 1)
        ]
        out = words[words.index("--out") + 1]
        write_lines(out / "train.log", rows)

    monkeypatch.setattr(study, "resmlp_mt", train)
    monkeypatch.setattr(study, "REPEATS", 3)
    argv = ["study.py", "cost", "transformer", "gated-ln", "--size=0.6", "--label=x"]
    monkeypatch.setattr("sys.argv", argv)
    assert run_main(study.main) == 0
    numbers = results.load()["cost/en-de/0.6/x"]["numbers"]
    assert numbers["seconds"] == {"transformer": 3.5, "gated-ln": 1.5}
    assert numbers["repetitions"]["transformer"] == [3.5, 3.5, 7.5]
    assert tables.VALUES["transformer's time"](numbers) == pytest.approx(3.5 / 1.5)


def test_a_system_has_one_learning_rate_whatever_the_seed():
    """That with the lowest mean loss: no mean over seeds mixes rates."""
    results = {}
    for system, rate, losses in (
        ("transformer", 0.1, {1: 3, 2: 3, 3: 3}),
        ("gated-ln", 0.1, {1: 2.0, 2: 2.5}),
        ("gated-ln", 0.2, {1: 2.2, 2: 2.4}),  # better with seed 2 alone
    ):
        given = {"pair": "en-de", "size": "5.6", "label": "", "updates": 2000, "scores": {}}
        for seed, loss in losses.items():
            numbers = {**given, "system": system, "rate": rate, "valid_curve": [[2000, loss]]}
            results[f"{system}-{rate}.{seed}"] = {"seed": seed, "numbers": numbers}
    (found,) = tables.scored(results).values()
    trained = {system: [n["rate"] for n in some] for system, some in found.items()}
    assert trained == {"transformer": [0.1, 0.1], "gated-ln": [0.1, 0.1]}


def test_each_system_has_its_own_dropout_as_it_has_its_own_rate():
    found = {}
    given = {"pair": "en-de", "size": "0.6", "rate": 0.01}
    losses = {("transformer", "0"): 3, ("transformer", "0.1"): 3.5, ("gated-ln", "0.1"): 2.5}
    losses["lightconv", "0"] = 2
    for (system, dropout), loss in losses.items():
        numbers = {**given, "system": system, "label": f"9000-pairs-dropout={dropout}"}
        numbers["valid_curve"] = [[1000, loss + 1], [2000, loss]]
        found[f"curve/{system}-{dropout}"] = {"seed": 1, "numbers": numbers}
    (group,) = curves.compared(found)
    assert curves.setting(group) == "En-De, 0.6 million, 9,000 pairs"
    tried = {"0.01 (dropout 0)": 3, "0.01 (dropout 0.1)": 3.5}
    assert group.rates("transformer") == (2000, tried)
    assert group.ratios("transformer", 1000) == [(pytest.approx(2**0.5), True)]
    assert group.ratios("lightconv", 1000) == []  # it got there before it was validated


def test_a_result_takes_the_place_of_that_of_its_name(file, monkeypatch):
    words = ["decode", "--beam", "4", "--out=/c", "--out", "/d", "/a/b"]
    monkeypatch.setattr("sys.argv", [f"{ROOT}/scripts/benchmark", *words])
    for name, speed in (("speed/x", 111), ("speed/y", 2), ("speed/x", 3)):
        results.append(name, {"speed": speed}, 7)
    found = results.load()
    assert list(found) == ["speed/y", "speed/x"] and len(file.read_text().splitlines()) == 2
    last = found["speed/x"]
    assert last["numbers"] == {"speed": 3} and last["seed"] == 7
    assert last["command"] == "python scripts/benchmark decode --beam 4 --out=OUT --out OUT b"
    assert last["commit"] and last["machine"]


CLAIMS = """settings = ['\\d+ layers']
[[claim]]
page = "x.md"
text = "is {:.0f} minutes and {:.2f} loss"
values = ["minutes of a minus b and c", "curve/-1/1 of a"]
"""


def test_numbers_in_sentences_come_from_the_results(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "CLAIMS", tmp_path / "claims.toml")
    tables.CLAIMS.write_text(CLAIMS)
    minutes = {"a": 9, "b": 1, "c": 3}
    claimed = {x: {"numbers": {"minutes": n, "curve": [[1, 2.5]]}} for x, n in minutes.items()}
    page = "With 6 layers it\nis 5\nminutes and -0.1 loss.\n"
    filled = tables.fill("x.md", page, claimed)
    assert filled == "With 6 layers it\nis 7\nminutes and 2.50 loss.\n"
    assert tables.fill("x.md", filled, claimed) == filled and tables.fill("y.md", page, {}) == page
    assert tables.loose_numbers("x.md", filled) == []
    more = filled + "In 2014 `8 a` and [x](9.md) gave 3.5, not 1,000.\n| 4 |\n```\n7\n```\n"
    assert tables.loose_numbers("x.md", more) == ["3.5", "1,000"]
    tables.CLAIMS.write_text(CLAIMS.replace(" loss", "."))
    with pytest.raises(UserError, match="not once"):  # 2.50 is not 2 and a point
        tables.fill("x.md", filled, claimed)


def test_repeats_that_the_reference_has_are_not_added():
    twice = "a b c a b c"
    found = scoring.scores([twice, twice], [twice, "a b c"])
    assert (found["repeats"], found["added_repeats"]) == (1, 0.5)


def test_bleu_by_the_words_of_the_source():
    sources = ["a " * words for words in (31, 5, 6, 1001)]
    right = ["u v w x", "x y z u", "z", "u v w x"]
    found = scoring.by_length(sources, [*right[:2], "w", right[3]], right)
    assert {most: of["lines"] for most, of in found.items()} == {"5": 1, "10": 1, "1000": 2}
    assert [found[most]["bleu"] for most in ("5", "10", "1000")] == pytest.approx([100, 0, 100])
