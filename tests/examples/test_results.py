"""The tables in the examples' README files are those of their result files."""

import shlex
from dataclasses import asdict
from pathlib import Path

import pytest
import run
from table import TESTS, main, table

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.files import read_json

MULTI30K = Path(__file__).resolve().parents[2] / "examples" / "multi30k"
RESULTS = sorted((MULTI30K / "results").glob("en-*.json"))


def test_table_of_multi30k():
    assert RESULTS and table(RESULTS) in (MULTI30K / "README.md").read_text(encoding="utf-8")


def in_readme(command):
    text = (MULTI30K / "README.md").read_text(encoding="utf-8")
    return f"python {command}" in " ".join(text.replace("\\\n", " ").split())


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_result_says_how_it_was_made(path):
    result = read_json(path)
    program, *options = shlex.split(result["command"])
    assert program == "examples/multi30k/run.py" and in_readme(result["command"])
    assert asdict(run.recipe_of(run.parse_args(options))) == result["recipe"]
    assert result["versions"]["commit"] and result["recipe"]["seed"] is not None
    assert result["cost"]["cpu_minutes"] <= 75
    assert all("version:" in result["scores"][split]["bleu_signature"] for split in TESTS)


def test_pruning_says_how_it_was_made():
    result = read_json(MULTI30K / "results" / "pruning.json")
    assert in_readme(result["command"]) and result["versions"]["commit"]
    assert all("version:" in signature for signature in result["signature"].values())


def test_a_file_that_is_no_result(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.json").write_text('{"recipe": {"train_options": []}}')
    (tmp_path / "b.json").write_text('{"recipe": ')
    for name in ("a.json", "b.json", "c.json"):
        monkeypatch.setattr("sys.argv", ["table.py", str(tmp_path / name)])
        assert run_main(main) == 1
        printed = capsys.readouterr().err.strip()
        assert name in printed and len(printed.splitlines()) == 1
