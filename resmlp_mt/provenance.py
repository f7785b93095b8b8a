"""What a result file says of how the result was made."""

import platform
import shutil
import subprocess

import torch

import resmlp_mt
from resmlp_mt.train.programs import USER_DIR


def count_parameters(weights: dict) -> int:
    """Weights in a state dict, a matrix that is shared counted once."""
    shared = {value.data_ptr(): value.numel() for value in weights.values() if value.dim() > 0}
    return sum(shared.values()) - sum(
        value.numel() for name, value in weights.items() if name.endswith("version")
    )


def _git(*arguments: str) -> str:
    """What git says of this repository; nothing where there is no git, or it is no checkout."""
    if shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(USER_DIR.parent), *arguments]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def versions() -> dict:
    """What made a result: the versions of the software and the commit of this repository, with a
    word if its code had been changed since."""
    commit = _git("rev-parse", "--short", "HEAD")
    if _git("status", "--porcelain", "--untracked-files=no", "--", "*.py"):
        commit += " and changes"
    return {
        "resmlp_mt": resmlp_mt.__version__,
        "commit": commit or "not a git checkout",
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
