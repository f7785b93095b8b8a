"""Arguments of ``add_argument`` for options that several commands have."""

from pathlib import Path
from typing import Any

from resmlp_mt_runtime.arguments import Range, within

SEED: dict[str, Any] = {"type": within(Range(0, 2**32 - 1)), "default": 1, "metavar": "N"}
USER_DIR: dict[str, Any] = {"type": lambda text: Path(text).absolute(), "metavar": "DIR"}
USER_DIR["help"] = "folder of your own Python code to import, such as a token mixing"
OUT_FOLDER: dict[str, Any] = {"type": Path, "metavar": "DIR", "required": True}
