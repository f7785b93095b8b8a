"""The study's comparisons and tables, on made-up results."""

import compare
import length_tables
import lengths
import long_sentences
import pictures
import pytest
import repetitions
import report
import speed
import study_tables as tables
from dots import draw_changes
from picture_inputs import assert_legible
from plan import BEFORE, recipe_of, rows

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.files import read_json, write_json
from resmlp_mt.pictures.style import PAGE


def call(monkeypatch, capsys, main, *arguments):
    """Exit status, what was printed, the error."""
    monkeypatch.setattr("sys.argv", ["program", *map(str, arguments)])
    status = run_main(main)
    printed = capsys.readouterr()
    return status, printed.out, printed.err.strip()


def result(name, target="de", table="table5", seed=1, bleu=30.0, nll=2.5):
    """What study.py writes for a row, as far as the tables read it."""
    scores = {"bleu": bleu, "chrf": 50.0, "compound_split_bleu": 31.0, "tokenized_bleu": 32.0}
    return {
        "row": f"{table}.en-{target}.{name}.{seed}",
        "table": table,
        "label": name,
        "command": "study.py",
        "recipe": {"target": target, "seed": seed, "updates": 9, "train_options": []},
        "cost": {"cpu_minutes": 15.2},
        "versions": {},
        "parameters": 1500000,
        "valid_nll": {"last": nll},
        "scores": {tables.TEST: scores},
    }


HEAD = {"command": "before", "versions": {}}


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
    table = tables.table5(results, "en-de").splitlines()
    assert table[2] == ("| transformer-3 | 1.50 | 9 | 15 | 1 | 2.50 | 30.0 | - | 50.0 | 31.0 | - |")
    assert table[3] == (
        "| toeplitz-3 | 1.50 | 9 | 15 (15 .. 15) | 1, 2 | 2.45 (2.40 .. 2.50) | "
        "31.5 (31.0 .. 32.0) | +1.0 (p < 0.001); -0.5 (p = 0.250) | "
        "50.0 (50.0 .. 50.0) | 31.0 (31.0 .. 31.0) | 1.50 |"
    )
    assert "| tokenized BLEU, compounds split |" in table_head(tables.table5(results, "en-de"))
    french = as_results(result("lstm", target="fr"))
    table = tables.table5(french, "en-fr")
    assert "| tokenized BLEU |" in table_head(table) and "| 32.0 |" in table
    assert tables.table5(results, "en-fr").startswith("No run")


def table_head(table):
    return table.splitlines()[0]


def test_higher_rate():
    chosen, higher = result("transformer-3"), result("transformer-3", table="higher-rate", bleu=31)
    for r, lr in ((chosen, "0.004"), (higher, "0.006")):
        r["recipe"]["train_options"] = ["--lr", lr]
    results = as_results(chosen, higher)
    results["compare"] = {"rows": {higher["row"]: bootstrap(1.0, 0.04)}}
    assert tables.higher_rate(results).splitlines()[2:] == [
        "| transformer-3 | 0.004 | 1 | 2.50 | 30.0 | - |",
        "| transformer-3 | 0.006 | 1 | 2.50 | 31.0 | +1.0 (p = 0.040) |",
    ]


def test_learning_curves():
    """Over the CPU minutes, in proportion to the updates."""
    runs = [result("transformer-3"), result("conv-3"), result("conv-3", seed=2)]
    for r in runs:
        r["valid_curve"] = [[3, 4.0], [9, 2.5]]
    figure = pictures.learning_curves(as_results(*runs), "en-de")
    assert_legible(figure)
    (axes,) = figure.axes
    assert len(axes.lines) == 2 and "CPU minutes" in axes.get_xlabel()
    assert list(axes.lines[0].get_xdata()) == pytest.approx([15.2 / 3, 15.2])
    assert list(axes.lines[0].get_ydata()) == [4.0, 2.5]


def changed(row, table, label, nll):
    result = {"row": row, "table": table, "label": label, "parameters": 1.5e6}
    result |= {"valid_curve": [[9, 4.0], [18, 3.0], [20, nll]], "valid_nll": {"last": nll}}
    scores = {"valid": {"bleu": 30.0}, tables.TEST: {"bleu": 31.0}}
    return result | {"cost": {"cpu_minutes": 7.2}, "scores": scores}


def test_changes():
    results = as_results(
        changed("ablation.00", "ablations", "the paper", 2.8),
        changed(BEFORE, "ablations", "Toeplitz, 8 heads", 2.7),
        changed("further.00", "further", "32 heads", 2.65),
    )
    counted = {"repeats": 0.149, "words": 1.014}
    results["repetitions"] = {"rows": {"ablation.00": counted}, "references": {}}
    lines = report.TABLES["ablations"](results).splitlines()[2:]
    assert lines[0] == (
        "| the paper | 1.50 | 7.2 | 4.00 | 3.00 | - | - | 2.800 | 30.0 | 31.0 | 14.9 | 101.4 |"
    )
    # what they change stands first
    more = report.TABLES["further"](results).splitlines()[2:]
    assert [line.split(" | ")[0] for line in more] == ["| Toeplitz, 8 heads", "| 32 heads"]
    assert more[0] == lines[1]


def test_picture_of_the_changes():
    """A panel each for nll, BLEU and, where they were counted, repetitions; the best above."""
    rows = [
        changed("ablation.00", "ablations", "the paper", 2.8),
        changed("ablation.01", "ablations", "A: none", 3.1),
        changed("ablation.02", "ablations", "a label that is far too long for a single line", 2.7),
    ]
    repeats = {"ablation.00": {"repeats": 0.1}, "ablation.02": {"repeats": 0.2}}
    (nll, bleu) = draw_changes(rows, {}, "title").axes
    assert [line.get_label() for line in bleu.lines if line.get_label().startswith("sacre")] == [
        "sacreBLEU, valid",
        "sacreBLEU, test_2016_flickr",
    ]
    assert list(nll.lines[0].get_xdata()) == [3.1, 2.8, 2.7]
    labels = [label.get_text() for label in nll.get_yticklabels()]
    assert labels[:2] == ["A: none", "the paper"] and "\n" in labels[2]
    shares = draw_changes(rows, repeats, "title").axes[2].lines[0].get_xdata()
    assert list(shares) == pytest.approx([float("nan"), 10, 20], nan_ok=True)


def test_room_for_long_labels():
    long = [f"a label that is far too long for a single line, {number}" for number in range(20)]
    rows = [changed(f"ablation.{n:02}", "ablations", name, 2.8) for n, name in enumerate(long)]
    assert_legible(draw_changes(rows, {}, "title"), PAGE)


def test_further_changes_are_of_what_stands_first():
    known = rows()
    before, full = known[BEFORE], known["table5.en-de.toeplitz-3.1"]
    assert sorted(before.options) == sorted(full.options) and before.updates < full.updates
    for row in known.values():
        if row.table == "further":
            model = full.options[: -len(recipe_of("toeplitz-3"))]
            assert row.options[: len(model)] == model and row.options != full.options
            assert row.updates == before.updates


def test_other_texts_stand_beside_the_original():
    results = as_results(
        result("toeplitz-3", bleu=31), result("toeplitz-3", table="distilled", bleu=33)
    )
    results["compare"] = {"rows": {"distilled.en-de.toeplitz-3.1": bootstrap(2, 0.01)}}
    results["repetitions"] = {"rows": {"distilled.en-de.toeplitz-3.1": {"words": 0.931}}}
    line = tables.other_texts(results).splitlines()[2]
    assert line == "| distilled | toeplitz-3 | 2.50 | 93.1 | 33.0 | 31.0 | +2.0 (p = 0.010) |"


def test_long_sentences():
    ways = {"as it is": [30.04, 11.0], "extended from 24": [30.0, 20.0]}
    rows = {"table5.en-de.lstm.1": {"as it is": [9, 8]}, "concatenated.en-de.resmlp-3.1": ways}
    found = {"long_sentences": {"words": [12.2, 24.4], "rows": rows}}
    table = length_tables.long_sentences(found).splitlines()
    assert table[0] == "| training text | system | A | 1 (12 words) | 2 (24 words) |"
    assert table[2:] == [
        "| original | lstm | - | 9.0 | 8.0 |",
        "| concatenated | resmlp-3 | as it is | 30.0 | 11.0 |",
        "| concatenated | resmlp-3 | extended from 24 | 30.0 | 20.0 |",
    ]
    figure = pictures.long_sentences(found)
    assert_legible(figure, PAGE)
    original, longer = figure.axes
    assert [line.get_label() for line in original.lines] == ["lstm"]
    assert [list(line.get_ydata()) for line in longer.lines] == list(ways.values())
    assert "original" in original.get_title() and "concatenated" in longer.get_title()


def test_lengths():
    runs = [result(name) for name in ("transformer-3", "conv-3", "lstm", "fconv")]
    results = as_results(*runs, result("conv-3", seed=2))
    buckets = [{"from": 0, "to": 8, "sentences": 9}, {"from": 9, "to": None, "sentences": 1}]
    found = {"transformer-3": [30.0, 20.04], "conv-3": [31.0, 22.0]}
    found = {f"table5.en-de.{name}.1": scores for name, scores in found.items()}
    found |= {"table5.en-de.conv-3.2": [32.0, 23.0], "table5.en-de.fconv.1": [29.0, 19.0]}
    results["lengths"] = {"buckets": buckets, "rows": found, "words_of": "source"}
    table = length_tables.lengths(results).splitlines()
    assert table[0] == "| pair | system | 0-8 (9) | over 8 (1) |"
    assert table[2:] == [
        "| en-de | fconv | 29.0 | 19.0 |",
        "| en-de | transformer-3 | 30.0 | 20.0 |",
        "| en-de | conv-3 | 31.5 | 22.5 |",
    ]
    assert_legible(pictures.lengths(results, "en-de"))
    (axes,) = pictures.lengths(results, "en-de").axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[30.0, 20.04], [31.5, 22.5]]
    assert pictures.lengths(results, "en-fr") is None


def test_lengths_of_translations(tmp_path, monkeypatch, capsys, translated):
    old = {"rows": {"kept": [1, 2]}, "buckets": [], **HEAD}
    write_json(tmp_path / "results" / "lengths.json", old)
    assert call(monkeypatch, capsys, lengths.main, *translated)[0] == 0
    made = read_json(tmp_path / "results" / "lengths.json")
    names = {f"table5.en-de.{system}.1" for system in ("transformer-3", "resmlp-3")}
    assert set(made["rows"]) == {"kept"} | names
    file = compare.translations(tmp_path / "out", "table5.en-de.resmlp-3.1")
    lines = len(list(compare.read_lines(file)))
    counts = [bucket["sentences"] for bucket in made["buckets"]]
    assert len(counts) == 5 and sum(counts) == lines and "version:" in made["signature"]
    perfect = made["rows"]["table5.en-de.resmlp-3.1"]
    assert all(round(bleu) == 100 for bleu, count in zip(perfect, counts) if count)
    other = made["rows"]["table5.en-de.transformer-3.1"]
    assert all(bleu < 100 for bleu, count in zip(other, counts) if count)


def test_repetitions():
    runs = [result("toeplitz-3", bleu=31), result("toeplitz-3", seed=2), result("transformer-3")]
    without = {"repeats": 0.0, "size": 4, "bleu": 32.0}
    found = {r["row"]: {"repeats": 0.05, "words": 1.0, "forbidden": without} for r in runs[1:]}
    found[runs[0]["row"]] = {"repeats": 0.025, "words": 1.0}
    found[runs[0]["row"]]["forbidden"] = {**without, "against": bootstrap(0.52, 0.03)}
    found = {"rows": found, "references": {"de": 0.007, "fr": 0.004}}
    table = tables.repetitions({**as_results(*runs), "repetitions": found})
    assert table.splitlines()[2:] == [
        "| en-de | (the references) | 0.7 | - | - | - | - | - |",
        "| en-de | transformer-3 | 5.0 | 30.0 | 4 | 0.0 | 32.0 | - |",
        "| en-de | toeplitz-3 | 3.8 (2.5 .. 5.0) | 30.5 (30.0 .. 31.0) | 4, 4 | "
        "0.0 (0.0 .. 0.0) | 32.0 (32.0 .. 32.0) | +0.5 (p = 0.030) |",
        "| en-fr | (the references) | 0.4 | - | - | - | - | - |",
    ]


@pytest.mark.parametrize(
    "line, expected",
    [
        ("a man a man a man", True),
        ("a man in a hat", False),
        ("a man sees a man", False),
        ("in a hat and in a hat", True),
        ("a man", False),
        ("", False),
    ],
)
def test_what_repeats(line, expected):
    assert repetitions.repeats(line) is expected


def test_counted():
    found = repetitions.counted(["a b c a b c", "x"], ["a b c", "x y"])
    assert found == {"repeats": 0.5, "words": 7 / 5}


def test_joined_sentences():
    pairs = [(str(i), str(-i)) for i in range(7)]
    assert long_sentences.joined(pairs, 1) == pairs
    assert long_sentences.joined(pairs, 3) == [("0 1 2", "0 -1 -2"), ("3 4 5", "-3 -4 -5")]


@pytest.mark.parametrize(
    "row, against",
    [
        ("table5.en-fr.lstm.2", "table5.en-fr.transformer-3.2"),
        ("distilled.en-de.resmlp-3.1", "table5.en-de.resmlp-3.1"),
        ("table5.en-de.transformer-3.1", None),
        ("ablation.03", None),
    ],
)
def test_what_is_compared_with_what(row, against):
    assert compare.pairs().get(row) == against


@pytest.fixture
def translated(tmp_path, monkeypatch, hundred_lines):
    """Translations of two systems; gives the folders' options."""
    monkeypatch.setenv("MULTI30K", str(hundred_lines))
    _, file = compare.find_corpora("de", tmp_path)[compare.TEST]
    references = list(compare.read_lines(file))
    for name, change in (("transformer-3", "x"), ("resmlp-3", "")):
        path = compare.translations(tmp_path / "out", f"table5.en-de.{name}.1")
        path.parent.mkdir(parents=True)
        path.write_text("".join(f"{change}{line}\n" for line in references))
    (tmp_path / "results").mkdir()
    return "--out", tmp_path / "out", "--results", tmp_path / "results"


def test_compare(translated, tmp_path, monkeypatch, capsys):
    old = {"kept": {"against": "another"}}
    write_json(tmp_path / "results" / "compare.json", {"rows": old, **HEAD})
    status, printed, _ = call(monkeypatch, capsys, compare.main, *translated)
    made = read_json(tmp_path / "results" / "compare.json")["rows"]
    assert status == 0 and "table5.en-de.resmlp-3.1" in printed
    # what an earlier call found stays, and only what has both translations is compared
    assert set(made) == {"kept", "table5.en-de.resmlp-3.1"}
    test = made["table5.en-de.resmlp-3.1"]
    assert round(test["bleu"]["system"], 6) == 100 > test["bleu"]["baseline"]
    assert test["against"] == "table5.en-de.transformer-3.1"
    assert "bs:1000" in test["bleu"]["signature"]


@pytest.mark.parametrize("program", [compare, lengths, repetitions])
def test_translations_cut_off(program, translated, tmp_path, monkeypatch, capsys):
    path = compare.translations(tmp_path / "out", "table5.en-de.resmlp-3.1")
    for lines in (path.read_text().splitlines()[:3], []):
        path.write_text("".join(f"{line}\n" for line in lines))
        status, _, error = call(monkeypatch, capsys, program.main, *translated)
        assert status == 1 and len(error.splitlines()) == 1
        assert f"{path}: {len(lines)} translations but" in error
    assert not (tmp_path / "results" / f"{program.__name__}.json").exists()


@pytest.mark.parametrize("program", [compare, lengths])
def test_a_new_folder_for_results(program, translated, tmp_path, monkeypatch, capsys):
    options = ("--out", tmp_path / "out", "--results", tmp_path / "a" / "new" / "one")
    assert call(monkeypatch, capsys, program.main, *options)[0] == 0
    assert (tmp_path / "a" / "new" / "one" / f"{program.__name__}.json").exists()
    (tmp_path / "file").write_text("")
    options = ("--out", tmp_path / "out", "--results", tmp_path / "file")
    status, printed, error = call(monkeypatch, capsys, program.main, *options)
    assert status == 1 and f"{tmp_path / 'file'}" in error and len(error.splitlines()) == 1


@pytest.mark.parametrize("program", [compare, lengths, long_sentences, repetitions])
@pytest.mark.parametrize("content", ["{}", "[]", '{"rows": '])
def test_what_an_earlier_call_left(program, content, translated, tmp_path, monkeypatch, capsys):
    file = tmp_path / "results" / f"{program.__name__}.json"
    file.write_text(content)
    status, _, error = call(monkeypatch, capsys, program.main, *translated)
    assert status == 1 and str(file) in error and len(error.splitlines()) == 1
    assert file.read_text() == content


def test_speed(tmp_path, monkeypatch, capsys):
    """Twice as fast is 2; more sentences than there are, are refused."""
    subwords = tmp_path / "data.en-de" / "subwords"
    subwords.mkdir(parents=True)
    (subwords / f"{compare.TEST}.en").write_text("a b\nc\nd e f\n")
    for label in ("transformer-3", "resmlp-3"):
        model = tmp_path / f"table5.en-de.{label}.1" / "generate" / "model.pt"
        model.parent.mkdir(parents=True)
        model.touch()
    monkeypatch.setattr(speed, "decoder", lambda model, data, text, args: lambda: len(text))

    def taken(functions, warmup, repeats):
        for function in functions.values():
            function()
        return {"transformer-3": [2.0, 3.0, 2.0], "resmlp-3": [1.0, 1.5, 1.0]}

    monkeypatch.setattr(speed, "alternate", taken)
    options = ("--out", tmp_path, "--results", tmp_path, "--sentences")
    assert call(monkeypatch, capsys, speed.main, *options, 2)[0] == 0
    found = read_json(tmp_path / "speed.json")["rows"]
    assert found["resmlp-3"]["relative"]["median"] == 2
    assert found["transformer-3"]["sentences_a_second"]["median"] == 1
    assert found["resmlp-3"]["subwords"] == 2
    status, _, error = call(monkeypatch, capsys, speed.main, *options, 4)
    assert status == 1 and error == f"program: error: --sentences 4: {compare.TEST} has 3"


PROGRAMS = (compare, speed, lengths, long_sentences, repetitions)


@pytest.mark.parametrize("main", [program.main for program in PROGRAMS])
def test_nothing_to_work_on(main, tmp_path, hundred_lines, monkeypatch, capsys):
    monkeypatch.setenv("MULTI30K", str(hundred_lines))
    arguments = ("--out", tmp_path / "none", "--results", tmp_path)
    status, _, error = call(monkeypatch, capsys, main, *arguments)
    assert status == 1 and len(error.splitlines()) == 1 and "none" in error
    assert not list(tmp_path.glob("*.json"))


def test_no_results_to_report(tmp_path, monkeypatch, capsys):
    readme = tmp_path / "README.md"
    readme.write_text("<!-- trials -->\nold\n<!-- /trials -->\n")
    arguments = ("--results", tmp_path / "typo", "--write", readme)
    status, _, error = call(monkeypatch, capsys, report.main, *arguments)
    assert (
        status == 1 and f"{tmp_path / 'typo'}: no results" in error and "old" in readme.read_text()
    )


@pytest.mark.parametrize("name", [*(program.__name__ for program in PROGRAMS), "table5.x"])
def test_a_file_that_lacks_something(name, tmp_path, monkeypatch, capsys):
    (tmp_path / f"{name}.json").write_text('{"row": "x"}' if "." in name else "{}")
    status, _, error = call(monkeypatch, capsys, report.main, "--results", tmp_path)
    assert status == 1 and f"{name}.json" in error and "is missing" in error
