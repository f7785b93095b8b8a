"""The dictionaries of binary data and of a model: which they are, and whether they are the same."""

from hashlib import sha256
from pathlib import Path
from typing import Optional, Tuple

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json

TRAINING = "train.json"  # what a training was begun with, beside its checkpoints


def dictionaries(folder: Path, languages: Tuple[str, str]) -> Optional[Tuple[Path, Path]]:
    """Those of source and target in a folder of data or of a model, if both are there."""
    source, target = (Path(folder) / f"dict.{language}.txt" for language in languages)
    return (source, target) if source.is_file() and target.is_file() else None


def joint_dictionary(folder: Path, languages: Tuple[str, str]) -> Optional[Path]:
    """The dictionary of both sides, if there is one."""
    found = dictionaries(folder, languages)
    same = found is not None and found[0].read_bytes() == found[1].read_bytes()
    return found[0] if same else None


def dictionary_digest(found: Tuple[Path, Path]) -> str:
    """What tells the dictionaries of source and target from others."""
    source, target = (path.read_bytes() for path in found)
    return sha256(source if source == target else source + target).hexdigest()[:16]


def check_dictionaries(checkpoint: Path, data: Path, languages: Tuple[str, str]) -> None:
    """Refuse data that numbers the words in another way than those that a checkpoint was trained
    on. Where neither dictionaries nor ``train.json`` lie beside it, that is not known.

    Args:
        checkpoint: a file.
        data: folder of binary data or of a model.
        languages: of the checkpoint, source and target.

    Raises:
        UserError: if they are known to differ.
    """
    folder = Path(checkpoint).parent
    beside, given = dictionaries(folder, languages), dictionaries(data, languages)
    if beside is not None:
        trained_on = dictionary_digest(beside)
    else:
        try:
            trained_on = read_json(folder / TRAINING)["data"]["dictionary"]
        except (UserError, KeyError, TypeError):
            return  # no such file, or one of another program
    if given is not None and trained_on != dictionary_digest(given):
        raise UserError(
            f"{checkpoint} was trained with other dictionaries than those of {data}: prepare the "
            "data with --subword-model DATA/data-bin/spm.model of its data, which keeps them"
        )
