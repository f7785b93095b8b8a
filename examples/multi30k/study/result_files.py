"""The result files of the study: a folder a table, a file a row, and beside them the measures."""

from pathlib import Path
from typing import Dict

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
# of a row's file
FIELDS = {"command", "recipe", "cost", "versions"}
# of a measure's file, by its name
MEASURES = {
    "compare": {"command", "versions", "rows"},
    "speed": {"command", "versions", "rows"},
    "long_sentences": {"command", "versions", "rows"},
    "repetitions": {"command", "versions", "rows", "references"},
    "lengths": {"command", "versions", "rows", "buckets"},
    "pruning": {"command", "versions", "rows"},
}


def read(path: Path, fields: set) -> dict:
    """
    Raises:
        UserError: if a file is cut off or lacks one of its *fields*.
    """
    result = read_json(path)
    if not isinstance(result, dict) or fields - set(result):
        missing = min(fields - set(result)) if isinstance(result, dict) else "all"
        raise UserError(
            f"{path}: not a result of the study ({missing} is missing): delete it and make it again"
        )
    return result


def load(folder: Path = RESULTS) -> Dict[str, dict]:
    """All result files: each row by its name, with its name and table in it, and the measures.

    Raises:
        UserError: if there are none, or one is cut off or no result of the study.
    """
    results = {
        path.stem: read(path, MEASURES[path.stem])
        for path in sorted(folder.glob("*.json"))
        if path.stem in MEASURES
    }
    for path in sorted(folder.glob("*/*.json")):
        named = {"row": path.stem, "table": path.parent.name}
        results[path.stem] = {**read(path, FIELDS), **named}
    if not results:
        raise UserError(f"{folder}: no results of the study: python -m study run makes them")
    return results


def earlier(file: Path) -> dict:
    """What an earlier call left in the file of a measure; nothing in it where it left none.

    Raises:
        UserError: if it is cut off or of another program.
    """
    if not file.exists():
        return {"rows": {}, "references": {}}
    return read(file, MEASURES[file.stem])
