"""Learning curves, from the logs of trainings and from result files."""

import os
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json
from resmlp_mt.train.log import read_curve

Points = List[Tuple[int, float]]


def read_curves(files: Sequence[str]) -> Dict[str, Dict[str, Points]]:
    """Learning curves by label.

    Args:
        files: each a log of ``fairseq-train --log-format json``, or a result file (``.json``) with
            a ``valid_curve`` of ``[update, nll]``. ``LABEL=FILE`` names it. Default: the ``label``
            of a result file, the name of the file or, for a ``train.log``, of its folder.

    Returns:
        ``{"train": [(update, nll)], "valid": [(update, nll)]}`` by label; nll in bits a token.

    Raises:
        UserError: a file that is not there, cut off, or has no curve; a label given twice.
    """
    curves: Dict[str, Dict[str, Points]] = {}
    for given in files:
        label, path = _split(given)
        found, name = _read_result(path) if path.suffix == ".json" else _read_log(path)
        if not found["valid"] and not found["train"]:
            raise UserError(
                f"{path}: no learning curve in it: give a log of fairseq-train --log-format json, "
                "or a result file with valid_curve"
            )
        label = label or name
        if label in curves:
            raise UserError(f"{path}: a second curve called {label}: give it a label, LABEL={path}")
        curves[label] = found
    return curves


def _split(given: str) -> Tuple[Optional[str], Path]:
    label, equals, path = str(given).partition("=")
    if not equals or os.path.exists(given):
        return None, Path(given)
    return label, Path(path)


def _read_log(path: Path):
    try:
        curve = read_curve(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: give a file that is there") from None
    except ValueError:
        raise UserError(
            f"{path}: not a log of fairseq-train with losses, or damaged: give another"
        ) from None
    folder = path.resolve().parent
    # resmlp-mt run trains in the folder "checkpoints" of its own
    named = folder.parent if folder.name == "checkpoints" else folder
    return curve, named.name if path.name == "train.log" else path.stem


def _read_result(path: Path):
    result = read_json(path)
    points = result.get("valid_curve") if isinstance(result, dict) else None
    try:
        valid = [(int(update), float(nll)) for update, nll in points]
    except (TypeError, ValueError):
        raise UserError(
            f"{path}: no valid_curve of [update, nll] in it: give a result file"
        ) from None
    return {"train": [], "valid": valid}, str(result.get("label") or path.stem)
