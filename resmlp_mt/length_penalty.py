"""The length penalty that a validation set has chosen: ``search.json`` beside the model."""

from pathlib import Path
from typing import Optional

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json

FILE = "search.json"
DEFAULT = 0.6  # of Ott et al. for WMT14
RANGE = (-10, 10)  # exponents with which no length overflows


def is_length_penalty(value) -> bool:
    """Whether it is a number in the range: NaN is not, and true is no number."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and RANGE[0] <= value <= RANGE[1]


def length_penalty(given: Optional[float], folder: Path) -> float:
    """The one that is *given*, or that beside the model in *folder*, or :data:`DEFAULT`."""
    if given is not None:
        return given
    chosen = chosen_lenpen(folder)
    return DEFAULT if chosen is None else chosen


def chosen_lenpen(folder: Path) -> Optional[float]:
    """What ``resmlp-mt run`` has stored beside a model, or None."""
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    found = read_json(path)
    lenpen = found.get("lenpen") if isinstance(found, dict) else None
    if not is_length_penalty(lenpen):
        low, high = RANGE
        raise UserError(
            f'{path}: "lenpen" is no number from {low} to {high}: delete the file, or copy it again'
        )
    return lenpen
