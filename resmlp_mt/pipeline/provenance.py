"""What a result file says of how the result was made."""

import platform
import subprocess

import torch

import resmlp_mt
from resmlp_mt.pipeline.programs import USER_DIR


def count_parameters(weights: dict) -> int:
    """Weights in a state dict, a matrix that is shared counted once."""
    shared = {value.data_ptr(): value.numel() for value in weights.values() if value.dim() > 0}
    return sum(shared.values()) - sum(
        value.numel() for name, value in weights.items() if name.endswith("version")
    )


def versions() -> dict:
    """What made a result: the versions of the software and the commit of this repository."""
    commit = subprocess.run(
        ["git", "-C", str(USER_DIR), "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
    ).stdout.strip()
    return {
        "resmlp_mt": resmlp_mt.__version__,
        "commit": commit or "not a git checkout",
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
