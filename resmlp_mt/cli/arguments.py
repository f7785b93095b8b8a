"""Types of arguments that several subcommands have. A bad value is a UserError."""

import argparse
import os
from pathlib import Path
from typing import Any

from resmlp_mt.model_folder import check_name
from resmlp_mt_runtime.errors import UserError


def seed(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**32:  # NumPy's seeds
        raise argparse.ArgumentTypeError(f"must be from 0 to 4294967295, not {text}")
    return value


def out_folder(text: str) -> Path:
    """A folder that can be written, or made."""
    path = Path(text)
    existing = next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text}: choose a folder that can be written")
    try:
        check_name(path)
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return path


SEED: dict[str, Any] = {"type": seed, "default": 1, "metavar": "N"}
USER_DIR: dict[str, Any] = {"type": lambda text: Path(text).resolve(), "metavar": "DIR"}
USER_DIR["help"] = "folder of your own Python code to import, such as a token mixing"
OUT_FOLDER: dict[str, Any] = {"type": out_folder, "metavar": "DIR", "required": True}
