"""The study of Multi30k: its plan, its runs, and what is measured on them."""

import itertools
import shutil
import tomllib

import pytest
from fairseq.models import ARCH_MODEL_NAME_REGISTRY
from fairseq.options import get_training_parser, parse_args_and_arch
from study import __main__ as study
from study import measures, plan, runs, tables
from study.result_files import HERE, RESULTS, load

from resmlp_mt import fairseq_fixes  # noqa: F401 (registers our models)
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.files import read_json, write_json

ROWS = plan.rows()
FOUND = load()


def call(monkeypatch, capsys, *arguments):
    """Exit status and what was printed; on an error, its one line."""
    monkeypatch.setattr("sys.argv", ["study", *map(str, arguments)])
    status = run_main(study.main)
    printed = capsys.readouterr()
    return status, printed.err.strip() if status else printed.out


def parsed(arch, options):
    """What fairseq-train makes of options."""
    parser = get_training_parser()
    return vars(parse_args_and_arch(parser, ["data-bin", "--arch", arch, *options]))


def test_every_result_is_of_its_row():
    """Its recipe, a commit, a seed, a cost, signatures; fairseq-train takes the row's options."""
    for name, row in ROWS.items():
        result = FOUND[name]
        before = parsed(result["recipe"]["arch"], result["recipe"]["train_options"])
        assert parsed(row.arch, row.train_options) == before, name
        assert result["recipe"]["updates"] == row.updates
        assert (result["table"], result["recipe"]["seed"]) == (row.table, row.seed)
        assert result["versions"]["commit"] and 0 < result["cost"]["cpu_minutes"] < 75
        if row.scored:
            assert all("version:" in s["bleu_signature"] for s in result["scores"].values())
    assert {name for name in FOUND if "table" in FOUND[name]} == set(ROWS)


def test_every_change_is_one():
    """No option that stands later takes it back."""
    for unchanged, table in (("ablation.00", "ablations"), (plan.BEFORE, "further")):
        tables = [r for r in ROWS.values() if r.name == unchanged or r.table == table]
        options = [parsed(row.arch, row.train_options) for row in tables]
        assert all(a != b for a, b in itertools.combinations(options, 2))


@pytest.mark.parametrize("name", [name for name, system in plan.SYSTEMS.items() if system.trials])
def test_the_chosen_recipe_is_the_best_of_three(name):
    nll = [FOUND[f"trial.{name}.{n}"]["valid_nll"]["last"] for n in (1, 2, 3)]
    assert plan.SYSTEMS[name].chosen == 1 + nll.index(min(nll))


def test_a_recipe_has_every_option_of_its_row():
    for row in ROWS.values():
        recipe = tomllib.loads(runs.recipe(row))
        options = dict(recipe["options"]["all"])
        assert options.pop("keep-last-epochs") == recipe["average-count"] == 3
        assert (options.pop("log-format"), options.pop("log-interval")) == ("json", 20)
        words = ["--max-tokens", str(recipe["tokens"])]
        for name, value in options.items():
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        assert parsed(row.arch, words) == parsed(row.arch, row.train_options)
        assert recipe["max-update"] == row.updates and recipe["lenpen"] == list(row.lenpen)


@pytest.mark.parametrize("file, name", tables.TUTORIAL.items())
def test_the_recipes_of_the_tutorial_are_those_of_their_results(file, name):
    """Up to options that change no weight: which checkpoints are kept, and when to give up."""
    from resmlp_mt.train.recipe import load_recipe

    recipe = load_recipe(HERE.parent / file)
    row = ROWS[f"en-de.{name}.1"]
    model = ARCH_MODEL_NAME_REGISTRY[row.arch]
    options = recipe.options_for(model, "en-de", recipe.max_update)
    words = [word for name, values in options.items() for word in (name, *values)]
    ours = parsed(row.arch, [*words, "--max-tokens", str(recipe.tokens)])
    theirs = parsed(row.arch, row.train_options)
    changed = {key for key in theirs if ours[key] != theirs[key]}
    assert changed <= {"keep_last_epochs", "patience", "log_format", "log_interval"}
    assert (recipe.max_update, recipe.lenpen) == (row.updates, list(row.lenpen))
    assert (recipe.vocab_size, recipe.average_count) == (plan.VOCABULARY, runs.AVERAGE)


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (["run", "trial.none.9"], ["trial.none.9", "study list"]),
        (["run"], ["which rows"]),
        (["run", "--all", "--jobs", 0], ["--jobs: must be at least 1"]),
    ],
)
def test_refused(arguments, parts, monkeypatch, capsys):
    status, line = call(monkeypatch, capsys, *arguments)
    assert status == 1 and len(line.splitlines()) == 1
    assert all(part in line for part in parts)


def test_list_and_report(monkeypatch, capsys, tmp_path):
    status, printed = call(monkeypatch, capsys, "list", "table5.*")
    assert status == 0 and printed.count("done ") == len(printed.splitlines()) == 32
    status, printed = call(monkeypatch, capsys, "report")
    assert status == 0 and "higher rate" in printed and "ResMLP, Toeplitz" in printed
    (tmp_path / "few" / "table5").mkdir(parents=True)
    few = min((RESULTS / "table5").glob("*.json"))
    shutil.copy(few, tmp_path / "few" / "table5")
    status, printed = call(monkeypatch, capsys, "report", "--results", tmp_path / "few")
    assert status == 0, printed
    broken = tmp_path / "trials" / "trial.lstm.1.json"
    broken.parent.mkdir()
    broken.write_text('{"row": "trial.lstm.1", "rec')
    for action in (["list"], ["run", "trial.*"]):
        status, line = call(monkeypatch, capsys, *action, "--results", tmp_path)
        assert status == 1 and str(broken) in line and len(line.splitlines()) == 1


def test_a_student_needs_its_teachers(hundred_lines, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MULTI30K", str(hundred_lines))
    model = tmp_path / "table5.en-de.resmlp-3.1" / "model" / "spm.model"
    model.parent.mkdir(parents=True)
    model.touch()
    words = ["run", "distilled.en-de.resmlp-3.1", "--out", tmp_path, "--results", tmp_path]
    status, line = call(monkeypatch, capsys, *words)
    assert status == 1 and "study run table5.en-de.transformer-3.1" in line


@pytest.mark.parametrize(
    "line, expected",
    [
        ("a man a man a man", True),
        ("a man in a hat", False),
        ("a man sees a man", False),
        ("in a hat and in a hat", True),
        ("", False),
    ],
)
def test_what_repeats(line, expected):
    assert measures.repeats(line) is expected


@pytest.fixture
def translated(tmp_path, monkeypatch, hundred_lines):
    """Translations of two systems; gives the options of their folders."""
    monkeypatch.setenv("MULTI30K", str(hundred_lines))
    _, references = measures.sides("table5.en-de.resmlp-3.1")
    for name, change in (("transformer-3", "x"), ("resmlp-3", "")):
        path = measures.translations(tmp_path / "out", f"table5.en-de.{name}.1")
        path.parent.mkdir(parents=True)
        path.write_text("".join(f"{change}{line}\n" for line in references))
    return "--out", tmp_path / "out", "--results", tmp_path / "new" / "results"


def test_compare_and_lengths(translated, tmp_path, monkeypatch, capsys):
    kept = {"command": "before", "versions": {}, "rows": {"kept": {"against": "another"}}}
    (tmp_path / "new" / "results").mkdir(parents=True)
    write_json(tmp_path / "new" / "results" / "compare.json", kept)
    assert call(monkeypatch, capsys, "measure", "compare", "lengths", *translated)[0] == 0
    made = read_json(tmp_path / "new" / "results" / "compare.json")["rows"]
    # what an earlier call found stays, and only what has both translations is compared
    assert set(made) == {"kept", "table5.en-de.resmlp-3.1"}
    test = made["table5.en-de.resmlp-3.1"]
    assert round(test["bleu"]["system"], 6) == 100 > test["bleu"]["baseline"]
    assert test["against"] == "table5.en-de.transformer-3.1"
    assert "bs:1000" in test["bleu"]["signature"] and set(test) == {"against", "bleu", "chrf"}
    made = read_json(tmp_path / "new" / "results" / "lengths.json")
    counts = [bucket["sentences"] for bucket in made["buckets"]]
    assert len(counts) == 5 and sum(counts) == 6 and "version:" in made["signature"]
    perfect = made["rows"]["table5.en-de.resmlp-3.1"]
    assert all(round(bleu) == 100 for bleu, count in zip(perfect, counts) if count)


def test_translations_cut_off(translated, tmp_path, monkeypatch, capsys):
    path = measures.translations(tmp_path / "out", "table5.en-de.resmlp-3.1")
    path.write_text("".join(f"{line}\n" for line in path.read_text().splitlines()[:3]))
    for kind in ("compare", "lengths", "repetitions"):
        status, line = call(monkeypatch, capsys, "measure", kind, *translated)
        assert status == 1 and len(line.splitlines()) == 1
        assert f"{path} has 3 lines but" in line
    assert not (tmp_path / "new").exists()


def test_validation_chooses(tmp_path, monkeypatch):
    """Not the test set, for which the other value is the better one; and not the worst."""
    texts = {"val": ("v s", "v r"), plan.TEST: ("t s", "t r")}

    def sides(name, split=plan.TEST):
        return tuple([f"{side} a b c d e {i}" for i in range(9)] for side in texts[split])

    good = {"v": 4, "t": 3}

    def translate(out, name, sources, file, overrides=None, no_repeat_ngram_size=None):
        reach = (overrides or {}).get("token_mixing_reach")
        value = no_repeat_ngram_size or {16: 3, 24: 4}.get(reach)
        right = [source.replace(" s ", " r ") for source in sources]
        return right if value == good[sources[0][0]] else ["wrong"] * len(sources)

    monkeypatch.setattr(measures, "sides", sides)
    monkeypatch.setattr(measures, "translate", translate)
    found = measures.forbid("x", tmp_path, tmp_path / "file")
    assert found["size"] == 4 and found["bleu"] < 1
    valid, test = (list(zip(*sides("x", split))) for split in texts)
    found = measures.long_rows("table5.en-de.toeplitz-3.1", tmp_path, valid, [test])
    assert list(found) == ["as it is", "extended from 24"]


def test_result_files_are_small():
    for path in RESULTS.rglob("*.json"):
        assert path.stat().st_size < 20_000
