"""The length penalty that a validation set has chosen: ``search.json`` beside the model."""

from pathlib import Path
from typing import Optional

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json

FILE = "search.json"
DEFAULT = 0.6  # of Ott et al. for WMT14


def chosen_lenpen(folder: Path) -> Optional[float]:
    """What ``resmlp-mt run`` has stored beside a model, or None.

    Raises:
        UserError: if the file is there and has no such number.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        return None
    found = read_json(path)
    lenpen = found.get("lenpen") if isinstance(found, dict) else None
    if type(lenpen) not in (int, float):
        raise UserError(f'{path}: has no number "lenpen": delete the file, or copy it again')
    return lenpen
