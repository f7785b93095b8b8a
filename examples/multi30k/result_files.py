"""The study's result files: read all of a folder, or what an earlier call left in one."""

from pathlib import Path
from typing import Dict

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json

FIELDS = {"row", "table", "label", "command", "recipe", "cost", "versions"}
# files that are no row's, and what they must have
OTHERS = {name: {"command", "versions", "rows"} for name in ("compare", "speed", "long_sentences")}
OTHERS["repetitions"] = {"command", "versions", "rows", "references"}
OTHERS["lengths"] = {"command", "versions", "rows", "buckets"}


def checked(path: Path, result, fields: set) -> dict:
    """
    Raises:
        UserError: if a result lacks one of its *fields*.
    """
    if not isinstance(result, dict) or fields - set(result):
        missing = min(fields - set(result)) if isinstance(result, dict) else "all"
        raise UserError(
            f"{path}: not a result of the study ({missing} is missing): delete it and make it again"
        )
    return result


def load(folder: Path) -> Dict[str, dict]:
    """The result files of study.py in a folder, by row, and :data:`OTHERS` under their names.

    Raises:
        UserError: if there are none, or one is cut off or no result of these.
    """
    results = {}
    for path in sorted(folder.glob("*.json")):
        result = read_json(path)
        if path.stem in OTHERS:
            results[path.stem] = checked(path, result, OTHERS[path.stem])
        elif isinstance(result, dict) and "row" in result:
            results[result["row"]] = checked(path, result, FIELDS)
        else:
            checked(path, result, set())
    if not results:
        raise UserError(f"{folder}: no results of the study there: study.py makes them")
    return results


def earlier(file: Path) -> dict:
    """What an earlier call left in one of :data:`OTHERS`; nothing in it where it left none.

    Raises:
        UserError: if it is cut off or another program's.
    """
    if not file.exists():
        return {"rows": {}, "references": {}}
    return checked(file, read_json(file), OTHERS[file.stem])
