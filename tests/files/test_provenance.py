"""What a result file says of the code that made it."""

import os
import subprocess

from resmlp_mt import provenance


def test_the_commit_of_a_checkout(tmp_path, monkeypatch):
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    folder = tmp_path.resolve()
    for name in ("package/code.py", "venv/site/package/code.py", "result.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("1\n")

    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True)

    def commit(package):
        monkeypatch.setattr(provenance, "PACKAGE", folder / package)
        return provenance.versions()["commit"]

    assert commit("package") == "not a git checkout"
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    first = commit("package")
    assert 7 <= len(first) <= 12
    (folder / "result.json").write_text("2\n")
    (folder / "new.py").write_text("3\n")
    assert commit("package") == first
    (folder / "package" / "code.py").write_text("2\n")
    assert commit("package") == f"{first} and changes"
    assert commit("venv/site/package") == "not a git checkout"  # somebody else's
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit("package") == "not a git checkout"
