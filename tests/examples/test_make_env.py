"""scripts/make_env.sh: a Python that it cannot take."""

from command import shell
from fairseq_programs import ROOT


def test_why_a_python_is_refused(tmp_path):
    """One that does not start says so itself, as a shim of pyenv does."""
    for name, body in (("broken", "echo 'broken: no version' >&2; exit 127"), ("old", "echo 3.9")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    for python, said in (
        ("./broken", "./broken does not start: broken: no version"),
        ("./old", "./old is Python 3.9, not 3.1"),
        ("./gone", "./gone: there is no such program"),
    ):
        done = shell(f"bash '{ROOT / 'scripts' / 'make_env.sh'}' env {python}", tmp_path)
        assert done.returncode == 1 and f"error: {said}" in done.stderr
        assert not (tmp_path / "env").exists()
