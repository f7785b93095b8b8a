"""What lies in the folder of a model: its checkpoints, its subwords and ``search.json``, the length
penalty that ``resmlp-mt run`` chose on the validation set."""

import os
from pathlib import Path
from typing import Any

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json
from resmlp_mt.text.settings import MODEL

SEARCH = "search.json"
LENPEN = 0.6  # of Ott et al. for WMT14
LENPEN_RANGE = (-10, 10)  # exponents with which no length overflows


def is_length_penalty(value) -> bool:
    """Whether it is a number in the range: NaN is not, and true is no number."""
    low, high = LENPEN_RANGE
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and low <= value <= high


def length_penalty(given: float | None, folder: Path) -> float:
    """The *given* one, else the one stored in *folder*, else the default."""
    if given is not None:
        return given
    chosen = chosen_lenpen(folder)
    return LENPEN if chosen is None else chosen


def chosen_lenpen(folder: Path) -> float | None:
    """The length penalty stored beside a model, or None."""
    path = Path(folder) / SEARCH
    if not path.is_file():
        return None
    found = read_json(path)
    lenpen = found.get("lenpen") if isinstance(found, dict) else None
    if not is_length_penalty(lenpen):
        low, high = LENPEN_RANGE
        raise UserError(
            f'{path}: "lenpen" is no number from {low} to {high}: delete the file, or copy it again'
        )
    return lenpen


def found_beside(folder: Path, data: Path, bpe: str) -> dict:
    """fairseq's options for what lies beside a model: its subwords and its length penalty."""
    found: dict[str, Any] = {"lenpen": chosen_lenpen(folder)}
    if bpe == "sentencepiece":
        models = [str(place / MODEL) for place in (folder, data)]
        found["sentencepiece_model"] = next(filter(os.path.isfile, models), None)
    return {name: value for name, value in found.items() if value is not None}
