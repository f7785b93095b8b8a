"""What a soak found: one JSON file, one row of the table "What is tested" in docs/robustness.md.

    python tests/soak/NAME.py                  # a soak, and results/NAME.json
    python tests/soak/soaking.py [NAME ...]    # all of them, or some
    python scripts/tables.py                   # the table

A soak is a script beside this one. It ends with :func:`record`, and with exit status 1 if anything
was lost.
"""

import argparse
import json
import resource
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Dict, List, Tuple

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json, write_json
from resmlp_mt.provenance import versions

RESULTS = Path(__file__).parent / "results"
# of fairseq and hydra, about their own future, between the lines that count
warnings.simplefilter("ignore")
sys.path.insert(1, str(Path(__file__).parents[1]))  # for what soaks share with the tests
FIELDS = {"what", "tried", "lost", "command", "details", "cpu_minutes", "versions"}
# rows of the table, from top to bottom
ORDER = (
    "interruption",
    "workers",
    "stability",
    "properties",
    "hostile_checkpoints",
    "hostile_text",
    "compatibility",
)


def cpu_minutes() -> float:
    """CPU minutes of this process and of all its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return round(sum(u.ru_utime + u.ru_stime for u in used) / 60, 1)


def record(
    name: str, what: str, tried: str, lost: List[str], details: dict, folder: Path = RESULTS
) -> None:
    """Write ``folder/NAME.json``, print what was found, and end if anything was lost.

    Args:
        name: of the soak, one of ``ORDER``.
        what: what was shown, in one sentence without a full stop.
        tried: how much of what: "10 kills and 3 full disks".
        lost: a line for each failure, empty if all went well.
        details: all numbers, as JSON values.

    Raises:
        SystemExit: with status 1 if anything was lost.
    """
    assert name in ORDER, name
    result = {
        "what": what,
        "tried": tried,
        "lost": lost,
        "command": f"python tests/soak/{name}.py",
        "details": json.loads(json.dumps(details)),
        "cpu_minutes": cpu_minutes(),
        "versions": versions(),
    }
    write_json(folder / f"{name}.json", result)
    print(f"{name}: {what}: tried {tried}, lost {len(lost)}")
    for line in lost:
        print(f"  lost: {line}")
    if lost:
        sys.exit(1)


def load(folder: Path = RESULTS) -> Dict[str, dict]:
    """The results in *folder* by name, in the order of the table.

    Raises:
        UserError: if one is cut off or no result of a soak.
    """
    found = {}
    for name in ORDER:
        path = folder / f"{name}.json"
        if not path.exists():
            continue
        result = read_json(path)
        if not isinstance(result, dict) or FIELDS - set(result):
            raise UserError(f"{path}: not a result of a soak: run tests/soak/{name}.py again")
        found[name] = result
    return found


def table(results: Dict[str, dict]) -> Tuple[List[str], List[List[str]]]:
    """A heading and a row for each result: what, tried, failures, the command, CPU minutes."""
    rows = [
        [r["what"], r["tried"], str(len(r["lost"])), f"`{r['command']}`", f"{r['cpu_minutes']:.1f}"]
        for r in results.values()
    ]
    return ["what", "tried", "failures", "command", "CPU minutes"], rows


def run(names: List[str]) -> None:
    """Run some soaks, one after the other. One that fails does not stop the others.

    Raises:
        UserError: if there is no such soak, or one failed.
    """
    for name in names:
        if name not in ORDER:
            raise UserError(f"{name}: no such soak: there are {', '.join(ORDER)}")
    failed = []
    for name in names:
        print(f"--- {name}", flush=True)
        if subprocess.run([sys.executable, Path(__file__).with_name(f"{name}.py")]).returncode:
            failed.append(name)
    if failed:
        raise UserError(f"something was lost in {', '.join(failed)}: see above")


def main() -> None:
    parser = argparse.ArgumentParser(description="Run soaks, one after the other.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="some of them (default: all)")
    run(parser.parse_args().names or list(ORDER))


if __name__ == "__main__":
    sys.exit(run_main(main))
