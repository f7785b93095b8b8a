"""scripts/make_env.sh deletes nothing that it has not made, and says in one line what stops it."""

import stat
import subprocess

import pytest
from fairseq_programs import ROOT

# answers what the script asks of a Python, and installs nothing
STAND_IN = """#!/bin/sh
case "$1 $2" in
  "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  "-m pip") [ -z "$FAIL" ] || { echo "ERROR: no such package"; exit 1; } ;;
  *) echo VERSION ;;
esac
"""


@pytest.fixture
def make_env(tmp_path):
    """Run the script for the folder ``tmp_path / "env"`` with a stand-in for a Python."""

    def run(version="3.12", **environment):
        python = tmp_path / f"python{version}"
        python.write_text(STAND_IN.replace("VERSION", version))
        python.chmod(python.stat().st_mode | stat.S_IXUSR)
        command = [ROOT / "scripts" / "make_env.sh", tmp_path / "env", python]
        path = {"PATH": "/usr/bin:/bin", **environment}
        return subprocess.run(["bash", *command], env=path, capture_output=True, text=True)

    return run


def refusal(result):
    assert result.returncode == 1 and result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("make_env.sh: error: ")
    return line


@pytest.mark.parametrize("name", ["thesis.txt", ".hidden", "pyvenv.cfg"])
def test_a_folder_of_somebody_else(make_env, tmp_path, name):
    """Documents, or an environment that another tool made."""
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / name).write_text("mine\n")
    assert "env is not empty, and no environment of this script" in refusal(make_env())
    assert [path.name for path in (tmp_path / "env").iterdir()] == [name]
    assert (tmp_path / "env" / name).read_text() == "mine\n"


@pytest.mark.parametrize("made_before", [False, True])
def test_made_once(make_env, tmp_path, made_before):
    if made_before:
        (tmp_path / "env").mkdir()
    result = make_env()
    assert result.returncode == 0 and result.stdout.endswith("env is complete\n")
    (tmp_path / "env" / "kept").write_text("")
    assert make_env().stdout == f"{tmp_path}/env is complete\n"
    assert (tmp_path / "env" / "kept").exists()


def test_an_interrupted_environment_is_made_again(make_env, tmp_path):
    result = make_env(FAIL="1")
    assert result.returncode == 1 and "pip failed: ERROR: no such package" in result.stderr
    (tmp_path / "env" / "half").write_text("")
    assert make_env().returncode == 0
    assert not (tmp_path / "env" / "half").exists()


@pytest.mark.parametrize(
    "version, said",
    [("3.14", "hydra-core 1.3.2"), ("3.10", "too old"), ("2.7", "too old"), ("3.9", "too old")],
)
def test_pythons_that_are_not_supported(make_env, tmp_path, version, said):
    line = refusal(make_env(version))
    assert f"Python {version}" in line and said in line and "3.11, 3.12 or 3.13" in line
    assert not (tmp_path / "env").exists()
