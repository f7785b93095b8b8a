#!/usr/bin/env python3
"""Every table and number between marks in the Markdown files, rebuilt from result files.

    python scripts/tables.py            # write them
    python scripts/tables.py --check    # change nothing, name the files that are not up to date

A mark is <!-- NAME --> before the text and <!-- /NAME --> behind it.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import Callable, Dict

ROOT = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(ROOT / folder) for folder in (".", "examples/multi30k", "tests/soak")]

import soaking  # noqa: E402
import speed_tables  # noqa: E402
from study import result_files  # noqa: E402
from study import tables as study_tables  # noqa: E402

from resmlp_mt.cli.terminal import run_main  # noqa: E402
from resmlp_mt.errors import UserError  # noqa: E402

Texts = Dict[str, str]


def markdown(table) -> str:
    """A table (heading, rows) in Markdown; text as it is."""
    if isinstance(table, str):
        return table
    head, rows = table
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def marked() -> Dict[Path, Texts]:
    """For each file what stands between its marks, by their names."""
    results = result_files.load()
    study = {name: make(results) for name, make in study_tables.TABLES.items()}
    front = {
        "what is tested": soaking.table(soaking.load()),
        **{name: make(results) for name, make in study_tables.FRONT.items()},
        "speed": speed_tables.front(),
        "speed of the others": speed_tables.front_others(),
    }
    tables = {
        ROOT / "README.md": front,
        ROOT / "scripts" / "README.md": speed_tables.WMT14,
        ROOT / "scripts" / "results" / "README.md": speed_tables.SPEEDS,
        ROOT / "examples" / "multi30k" / "README.md": {"multi30k": study_tables.tutorial(results)},
        ROOT / "examples" / "multi30k" / "study" / "README.md": study,
    }
    return {
        path: {
            name: markdown(table() if isinstance(table, Callable) else table)
            for name, table in some.items()
        }
        for path, some in tables.items()
    }


def fill(text: str, found: Texts) -> str:
    """Put each text between its marks: lines below the mark, one line of text behind it.

    Raises:
        UserError: if a mark is missing, or another one is there of which nothing is known.
    """
    for name, new in found.items():
        pattern = re.compile(rf"<!-- {name} -->.*?<!-- /{name} -->", re.DOTALL)
        if not pattern.search(text):
            raise UserError(f"no place for {name}: write <!-- {name} --> and <!-- /{name} -->")
        between = f"\n{new}\n" if "\n" in new else new
        text = pattern.sub(lambda _, n=name, b=between: f"<!-- {n} -->{b}<!-- /{n} -->", text)
    for name in re.findall(r"<!-- /(.+?) -->", text):
        if name not in found:
            raise UserError(f"nothing is known of the mark <!-- {name} -->: delete it")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    changed = {}
    for path, found in marked().items():
        text = path.read_text(encoding="utf-8")
        try:
            new = fill(text, found)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        if new != text:
            changed[path] = new
    if args.check and changed:
        raise UserError(f"not as the result files say: {', '.join(map(str, changed))}: make tables")
    for path, new in changed.items():
        path.write_text(new, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    sys.exit(run_main(main))
