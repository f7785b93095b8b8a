"""What a result file says of how the result was made."""

import platform
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import resmlp_mt

PACKAGE = Path(resmlp_mt.__file__).resolve().parent


def versions() -> dict:
    """What made a result: the software, and the commit if this package runs from a checkout."""
    return {
        "resmlp_mt": resmlp_mt.__version__,
        "commit": _commit(),
        "torch": version("torch"),
        "python": platform.python_version(),
    }


def _commit() -> str:
    """The short hash of HEAD, and whether a tracked .py file differs from it. A repository that
    only encloses the installed package says nothing of it."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(PACKAGE.parent), *words]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    if not shutil.which("git") or git("rev-parse", "--show-toplevel") != str(PACKAGE.parent):
        return "not a git checkout"
    changed = git("status", "--porcelain", "--untracked-files=no", "--", "*.py")
    return git("rev-parse", "--short", "HEAD") + (" and changes" if changed else "")
