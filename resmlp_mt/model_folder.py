"""Other files in a folder of checkpoints or of binary data.

``text.json`` and ``spm.model`` say how text is processed (``resmlp_mt.text``), ``search.json``
which length penalty ``resmlp-mt run`` chose on the validation set, ``train.json`` with what a
training run began; ``dict.*.txt`` are fairseq's dictionaries.
"""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

from resmlp_mt_runtime.arguments import RANGES
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import read_json

TEXT, SUBWORDS, SEARCH, TRAINING = "text.json", "spm.model", "search.json", "train.json"
LENPEN = 0.6  # of Ott et al. for WMT14


def model_of_run(folder: Path) -> Path:
    """The folder of the model in that of a ``resmlp-mt run``; other folders as they are."""
    is_run = (folder / "model" / "model.pt").is_file() and not (folder / "model.pt").exists()
    return folder / "model" if is_run else folder


def check_name(folder: Path) -> None:
    """Refuse a name that fairseq reads as several folders or as a variable of a configuration."""
    for sign in (os.pathsep, "${"):
        if sign in str(folder):
            raise UserError(f"{folder}: fairseq cannot use a folder with {sign} in its name")


def dictionary_digest(folder: Path, languages: tuple[str, str]) -> str | None:
    """What tells the dictionaries in a folder from others; None if they are not there."""
    paths = [Path(folder) / f"dict.{language}.txt" for language in languages]
    if not all(path.is_file() for path in paths):
        return None
    return _digest(*(path.read_bytes() for path in paths))


def _digest(*dictionaries: bytes) -> str:
    return sha256(b"".join(dict.fromkeys(dictionaries))).hexdigest()[:16]  # equal ones are one


def shared_dictionary(folder: Path) -> Path | None:
    """The dictionary that all languages of a folder share; None if they have others, or none."""
    paths = sorted(Path(folder).glob("dict.*.txt"))
    same = len({path.read_bytes() for path in paths}) == 1
    return paths[0] if len(paths) > 1 and same else None


def check_dictionaries(checkpoint: Path, data: Path, languages: tuple[str, str]) -> None:
    """Refuse *data* with other dictionaries than those, or the train.json, beside a checkpoint."""
    folder = Path(checkpoint).parent
    trained_on, given = (dictionary_digest(each, languages) for each in (folder, data))
    # a training for another pair begins with it; of two dictionaries it is unknown which is which
    if trained_on is None and (shared := shared_dictionary(folder)):
        trained_on = _digest(shared.read_bytes())
    if trained_on is None:
        try:
            trained_on = read_json(folder / TRAINING)["data"]["dictionary"]
        except (OSError, UserError, KeyError, TypeError):
            return  # no such file, or another program's
    if given is not None and trained_on != given:
        wrong = f"{checkpoint} was trained with other dictionaries than those of {data}"
        remedy = "--subword-model DATA/data-bin/spm.model of the training data"
        raise UserError(f"{wrong}: prepare the data with {remedy}")


def read_lenpen(folder: Path) -> float:
    """The length penalty stored beside a model, or the default. Refuses one out of range."""
    path = Path(folder) / SEARCH
    if not path.is_file():
        return LENPEN
    found = read_json(path)
    lenpen: Any = found.get("lenpen") if isinstance(found, dict) else None
    if not RANGES["lenpen"].has(lenpen):
        wrong = f'"lenpen" is not {RANGES["lenpen"]}'
        raise UserError(f"{path}: {wrong}: delete the file, or copy it again")
    return lenpen
