"""What a result file says of the code that made it."""

import subprocess

import pytest

from resmlp_mt import provenance


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git checkout with a commit, in place of this one."""
    monkeypatch.setattr(provenance, "USER_DIR", tmp_path / "package")
    (tmp_path / "package").mkdir()
    for name in ("package/code.py", "result.json"):
        (tmp_path / name).write_text("1\n")

    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", tmp_path, *who, *arguments], check=True, capture_output=True)

    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    return tmp_path


def test_changed_code_is_told(checkout):
    commit = provenance.versions()["commit"]
    assert 7 <= len(commit) <= 12
    (checkout / "result.json").write_text("2\n")
    (checkout / "new.py").write_text("3\n")
    assert provenance.versions()["commit"] == commit
    (checkout / "package" / "code.py").write_text("2\n")
    assert provenance.versions()["commit"] == f"{commit} and changes"


@pytest.mark.parametrize("missing", ["checkout", "git"])
def test_no_checkout(missing, tmp_path, monkeypatch):
    if missing == "git":
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        monkeypatch.setattr(provenance, "USER_DIR", tmp_path / "package")
    assert provenance.versions()["commit"] == "not a git checkout"
