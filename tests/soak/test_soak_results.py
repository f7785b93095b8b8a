"""The result files of the soaks, from which the table "What is tested" is made."""

import pytest
from soaking import ORDER, RESULTS, load, record, run, table

from resmlp_mt.errors import UserError


def test_every_result_says_how_it_was_made():
    assert all((RESULTS.parent / f"{name}.py").exists() for name in ORDER)
    assert {path.stem for path in RESULTS.glob("*.json")} == set(ORDER)
    for name, result in load().items():
        assert result["command"] == f"python tests/soak/{name}.py"
        assert result["versions"]["commit"] and result["versions"]["torch"]


def test_a_failure_is_counted_and_ends_the_soak(tmp_path, capsys):
    with pytest.raises(SystemExit) as end:
        record("memory", "memory stays flat", "2 runs", ["run 2 grew"], {"runs": 2}, tmp_path)
    assert end.value.code == 1
    assert "tried 2 runs, lost 1\n  lost: run 2 grew" in capsys.readouterr().out
    _, rows = table(load(tmp_path))
    assert rows[0][:4] == ["memory stays flat", "2 runs", "1", "`python tests/soak/memory.py`"]


def test_what_is_no_soak_is_named(tmp_path):
    (tmp_path / "memory.json").write_text('{"what": "x"}')
    with pytest.raises(UserError, match=r"memory\.json.*run tests/soak/memory\.py again"):
        load(tmp_path)
    with pytest.raises(UserError, match="nonsense: no such soak: there are interruption"):
        run(["memory", "nonsense"])
