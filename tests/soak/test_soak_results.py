"""README.md's table "What is tested" is that of the soaks' result files."""

from pathlib import Path

import pytest
from soaking import ORDER, RESULTS, load, record, run, table

from resmlp_mt.analysis.markdown import fill, fill_file
from resmlp_mt.errors import UserError

ROOT = Path(__file__).parents[2]


def test_table_of_the_readme():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert fill(text, {"what is tested": table(load())}) == text


def test_every_soak_is_there():
    assert [name for name in ORDER if not (RESULTS.parent / f"{name}.py").exists()] == []
    assert {path.stem for path in RESULTS.glob("*.json")} <= set(ORDER)


@pytest.mark.parametrize("name, result", load().items())
def test_a_result_says_how_it_was_made(name, result):
    assert result["command"] == f"python tests/soak/{name}.py"
    assert result["versions"]["commit"] and result["versions"]["torch"]


def test_a_failure_is_counted_and_ends_the_soak(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        record("memory", "memory stays flat", "2 runs", ["run 2 grew"], {"runs": 2}, tmp_path)
    assert end.value.code == 1
    assert "tried 2 runs, lost 1\n  lost: run 2 grew" in capsys.readouterr().out
    assert "| memory stays flat | 2 runs | 1 | `python tests/soak/memory.py` |" in table(
        load(tmp_path)
    )


def test_a_file_cut_off_is_named(tmp_path):
    (tmp_path / "memory.json").write_text('{"what": "x"}')
    with pytest.raises(UserError, match=r"memory\.json.*run tests/soak/memory\.py again"):
        load(tmp_path)


def test_fill_needs_its_marks(tmp_path):
    path = tmp_path / "README.md"
    path.write_text("a\n<!-- t -->\nold\n<!-- /t -->\nb\n")
    fill_file(path, {"t": "| new |"})
    assert path.read_text() == "a\n<!-- t -->\n| new |\n<!-- /t -->\nb\n"
    with pytest.raises(UserError, match=r"README\.md: no place for the table.*<!-- u -->"):
        fill_file(path, {"t": "| newer |", "u": "| x |"})
    assert "newer" not in path.read_text()


def test_a_soak_that_is_none():
    with pytest.raises(UserError, match="--run nonsense: no such soak: there are interruption"):
        run(["memory", "nonsense"])
