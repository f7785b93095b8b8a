"""What a result file says of the code that made it."""

import os
import subprocess

import pytest

from resmlp_mt import provenance


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git checkout with a commit, in place of this one."""
    tmp_path = tmp_path.resolve()
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    for name in ("package/code.py", "venv/site/package/code.py", "result.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1\n")

    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", tmp_path, *who, *arguments], check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    monkeypatch.setattr(provenance, "PACKAGE", tmp_path / "package")
    return tmp_path


def test_changed_code_is_told(checkout):
    commit = provenance.versions()["commit"]
    assert 7 <= len(commit) <= 12
    (checkout / "result.json").write_text("2\n")
    (checkout / "new.py").write_text("3\n")
    assert provenance.versions()["commit"] == commit
    (checkout / "package" / "code.py").write_text("2\n")
    assert provenance.versions()["commit"] == f"{commit} and changes"


def test_the_repository_of_somebody_else(checkout, monkeypatch):
    """It has an environment inside, in which this package is installed."""
    monkeypatch.setattr(provenance, "PACKAGE", checkout / "venv" / "site" / "package")
    assert provenance.versions()["commit"] == "not a git checkout"


@pytest.mark.parametrize("missing", ["checkout", "git"])
def test_no_checkout(missing, tmp_path, monkeypatch):
    if missing == "git":
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        monkeypatch.setattr(provenance, "PACKAGE", tmp_path / "package")
    assert provenance.versions()["commit"] == "not a git checkout"
