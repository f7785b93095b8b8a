"""examples/multi30k/study.py: rows run, resume and are refused; report.py: tables from files."""

import json
from dataclasses import replace

import pytest
import report
import study
import texts
from fairseq.options import get_training_parser, parse_args_and_arch
from helpers import TINY
from plan import BEFORE, CHOSEN, MAX_TOKENS, Row, recipe_of, rows
from systems import SYSTEMS

from resmlp_mt.analysis.markdown import fill
from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json, write_json
from resmlp_mt.text.lines import read_lines

MULTI30K = study.HERE
RESULTS = report.load(MULTI30K / "results")


def call(monkeypatch, capsys, *arguments, main=study.main, program="study.py"):
    """Exit status and what was printed; on an error, its one line."""
    monkeypatch.setattr("sys.argv", [program, *map(str, arguments)])
    status = run_main(main)
    printed = capsys.readouterr()
    return status, printed.err.strip() if status else printed.out


@pytest.fixture
def tiny_plan(hundred_lines, tmp_path, monkeypatch):
    """Two rows of a few updates; gives the options for the folders."""
    plan = {
        name: Row(name, "table5", name, "resmlp_mt_tiny", TINY, updates, scored=updates > 6)
        for name, updates in (("short.1", 6), ("scored.1", 8))
    }
    monkeypatch.setenv("MULTI30K", str(hundred_lines))
    monkeypatch.setattr(study, "rows", lambda: plan)
    monkeypatch.setattr(study, "VOCABULARY", 120)
    return "--out", tmp_path / "out", "--results", tmp_path / "results"


def test_rows_run_once(tiny_plan, tmp_path, monkeypatch, capsys):
    status, _ = call(monkeypatch, capsys, "run", "--all", "--jobs", 1, *tiny_plan)
    assert status == 0
    short, scored = (read_json(tmp_path / f"results/{name}.1.json") for name in ("short", "scored"))
    assert short["command"] == "examples/multi30k/study.py run short.1" and "scores" not in short
    assert short["valid_curve"][-1][0] == 6 and scored["valid_curve"][-1][0] == 8
    for split in ("valid", "test_2016_flickr"):
        for name in ("bleu", "chrf", "tokenized_bleu", "compound_split_bleu"):
            assert "version" in scored["scores"][split][f"{name}_signature"]
    before = (tmp_path / "results/scored.1.json").stat().st_mtime_ns
    (tmp_path / "results/short.1.json").unlink()
    status, _ = call(monkeypatch, capsys, "run", "s*", "--jobs", 1, *tiny_plan)
    assert status == 0 and (tmp_path / "results/scored.1.json").stat().st_mtime_ns == before
    # what was trained is read again, not trained again
    assert read_json(tmp_path / "results/short.1.json") == short
    assert len(list((tmp_path / "out").glob("data.en-de/data-bin"))) == 1
    status, printed = call(monkeypatch, capsys, "list", *tiny_plan)
    assert [line.split()[0] for line in printed.splitlines()] == ["done", "done"]


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (["run", "trial.none.9"], ["trial.none.9", "study.py list"]),
        (["run"], ["which rows"]),
        (["run", "--all", "--jobs", 0], ["--jobs 0"]),
    ],
)
def test_refused(arguments, parts, monkeypatch, capsys):
    status, line = call(monkeypatch, capsys, *arguments)
    assert status == 1 and len(line.splitlines()) == 1
    assert all(part in line for part in parts)


def test_a_result_file_cut_off(tiny_plan, tmp_path, monkeypatch, capsys):
    """Named, and neither taken for a result nor overwritten."""
    broken = tmp_path / "results" / "short.1.json"
    broken.parent.mkdir()
    broken.write_text('{"row": "short.1", "rec')
    for arguments in (["run", "--all", *tiny_plan], ["list", *tiny_plan]):
        status, line = call(monkeypatch, capsys, *arguments)
        assert status == 1 and str(broken) in line and len(line.splitlines()) == 1
    assert broken.read_text() == '{"row": "short.1", "rec'
    status, line = call(
        monkeypatch, capsys, "--results", broken.parent, main=report.main, program="report.py"
    )
    assert status == 1 and str(broken) in line
    for content in ([1], {"row": "short.1"}):
        write_json(broken, content)
        with pytest.raises(UserError, match="not a result of the study"):
            report.load(broken.parent)


def test_a_failed_row_ends_the_others(tiny_plan, tmp_path, monkeypatch, capsys):
    """Side by side; the processes find their rows in the real plan, which has none of these."""
    status, line = call(monkeypatch, capsys, "run", "--all", "--jobs", 2, *tiny_plan)
    assert status == 1 and "failed" in line and "no such row" in line
    assert not list((tmp_path / "results").glob("*"))


def test_tables_in_the_readme():
    for folder, tables in ((MULTI30K, report.TABLES), (MULTI30K.parents[1], report.SUMMARY)):
        text = (folder / "README.md").read_text(encoding="utf-8")
        assert fill(text, {name: make(RESULTS) for name, make in tables.items()}) == text


def test_a_readme_without_a_place_for_a_table():
    with pytest.raises(UserError, match="<!-- trials -->"):
        fill("", {"trials": report.trials(RESULTS)})


def parsed(row):
    """What fairseq-train makes of a row's options."""
    parser = get_training_parser()
    args = parse_args_and_arch(parser, ["data-bin", "--arch", row.arch, *row.train_options])
    assert args.arch == row.arch and args.max_tokens == MAX_TOKENS
    return vars(args)


@pytest.mark.parametrize("row", rows().values(), ids=rows())
def test_fairseq_takes_every_row_s_options(row):
    """Not only those that were run: a row that is refused would stop the study after hours."""
    parsed(row)


def test_every_change_is_one():
    """No option that stands later takes it back."""
    for unchanged, table in (("ablation.00", "ablations"), (BEFORE, "further")):
        before = parsed(rows()[unchanged])
        seen = [before]
        for row in rows().values():
            if row.table == table and row.name != unchanged:
                assert parsed(row) not in seen, row.name
                seen.append(parsed(row))


@pytest.mark.parametrize("name", [name for name in RESULTS if name in rows()])
def test_a_result_says_how_it_was_made(name):
    """Its row's own recipe, a commit, a seed, a cost, signatures."""
    result, row = RESULTS[name], rows()[name]
    assert result["recipe"]["train_options"] == row.train_options
    assert result["recipe"]["updates"] == row.updates == result["valid_curve"][-1][0]
    assert result["recipe"]["seed"] == row.seed and result["versions"]["commit"]
    assert 0 < result["cost"]["cpu_minutes"] < 75
    if row.table in ("table5", "distilled", "concatenated", "higher-rate"):
        assert 12 < result["cost"]["cpu_minutes"] < 16.5
    if row.scored:
        assert "version:" in result["scores"]["test_2016_flickr"]["bleu_signature"]


@pytest.mark.parametrize("kind", CHOSEN)
def test_the_chosen_recipe_is_the_best_of_three(kind):
    tried = next(name for name in SYSTEMS if name.split("-")[0] == kind and SYSTEMS[name].trials)
    nll = [RESULTS[f"trial.{tried}.{n}"]["valid_nll"]["last"] for n in (1, 2, 3)]
    best = nll.index(min(nll))
    assert recipe_of(tried) == SYSTEMS[tried].trials[best]


def test_result_files_are_small():
    for path in (MULTI30K / "results").glob("*.json"):
        assert path.stat().st_size < 20_000 and json.loads(path.read_text())


def test_another_text_keeps_the_pieces(hundred_lines, tmp_path, monkeypatch):
    """Only the training text differs: half as many pairs again, the same vocabulary and tests."""
    monkeypatch.setenv("MULTI30K", str(hundred_lines))
    monkeypatch.setattr(study, "VOCABULARY", 120)
    row = Row("concatenated.x.1", "concatenated", "x", "resmlp_mt_tiny", TINY, 4)
    row = replace(row, text="concatenated")
    data = study.experiment(row, tmp_path).prepare()
    original = tmp_path / "data.en-de"
    texts = [folder / "subwords" / "train.en" for folder in (original, data.parent)]
    lines = [path.read_text().splitlines() for path in texts]
    assert lines[1][:100] == lines[0] and len(lines[1]) == 150
    for name in ("subwords/spm.model", "subwords/test_2016_flickr.de"):
        assert (original / name).read_bytes() == (data.parent / name).read_bytes()
    study.experiment(row, tmp_path)  # once more: what was made is not of other options


def test_a_student_learns_from_its_teachers(hundred_lines, tmp_path, monkeypatch):
    """The source side and what the ensemble of all teachers made of it."""
    for teacher in texts.TEACHERS:
        model = tmp_path / teacher / "generate" / "model.pt"
        model.parent.mkdir(parents=True)
        model.touch()
    searches = []

    def distill(search, source, target, prefix, targets):
        searches.append(search)
        prefix.parent.mkdir()
        for file, change in ((source, ""), (target, "x")):
            lines = [f"{change}{line}\n" for line in read_lines(file)]
            prefix.with_name(f"train.{texts.language_of(file)}").write_text("".join(lines))

    monkeypatch.setattr(texts, "distill", distill)
    monkeypatch.setenv("MULTI30K", str(hundred_lines))
    train = study.find_corpora("de", tmp_path)["train"]
    sides = [list(read_lines(file)) for file in texts.distilled(train, tmp_path)]
    original = [list(read_lines(file)) for file in train]
    assert sides == [original[0], [f"x{line}" for line in original[1]]]
    assert [path.parts[-3] for path in searches[0].checkpoints] == list(texts.TEACHERS)


def test_a_student_needs_its_teachers(hundred_lines, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MULTI30K", str(hundred_lines))
    monkeypatch.setattr(study, "VOCABULARY", 120)
    arguments = ["run", "distilled.en-de.resmlp-3.1", "--out", tmp_path, "--results", tmp_path]
    status, printed = call(monkeypatch, capsys, *arguments)
    assert status == 1 and "study.py run table5.en-de.transformer-3.1" in printed
