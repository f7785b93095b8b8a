"""Every mutant can be made of the present code; mutants.py says whether the tests catch it."""

import subprocess
import sys

import pytest
from catalogue import MUTANTS, Mutant
from mutants import mutated, read_report


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_can_be_made(mutant):
    assert mutant.new in mutated(mutant)


def test_names_differ():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize(
    "text, new, said",
    [
        ("x = 1\n", "y = 2", "0 times"),
        ("y = 1\ny = 1\n", "y = 2", "2 times"),
        ("y = 1\n", "y =", "no Python"),
        ("y = 1\n", "y = 1  # another", "stays the same"),
    ],
)
def test_a_mutant_that_cannot_be_made(tmp_path, text, new, said):
    (tmp_path / "some.py").write_text(text)
    with pytest.raises(ValueError, match=said):
        mutated(Mutant("wrong", "some.py", "y = 1", new), tmp_path)


def test_only_assertions_count(tmp_path):
    """What pytest reports of a test that passes, two that fail, and one that breaks off."""
    tests, report = tmp_path / "test_some.py", tmp_path / "report.xml"
    lines = ["import pytest", "def test_a(): pass", "def test_b(): assert 0", "def test_c(): 1 / 0"]
    lines += ["def test_d():", "    with pytest.raises(ValueError): pass"]
    tests.write_text("\n".join(lines))
    pytest_command = (sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}", tests)
    subprocess.run(pytest_command, cwd=tmp_path, capture_output=True)
    result = read_report(report)
    assert dict(result.failures) == {"test_some": 2} and result.other == 1
    assert result.verdict == "caught"
    assert result._replace(failures={}).verdict == "SURVIVED"
