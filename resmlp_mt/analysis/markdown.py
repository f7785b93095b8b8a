"""Tables in Markdown, and their places in a text: between <!-- NAME --> and <!-- /NAME -->."""

import os
import re
from pathlib import Path
from typing import Dict, List

from resmlp_mt.errors import UserError


def markdown_table(head: List[str], rows: List[List[str]]) -> str:
    """A table of *rows*, each with as many cells as *head*."""
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *rows])


def fill(text: str, tables: Dict[str, str]) -> str:
    """Put every table between its marks.

    Args:
        text: Markdown with the marks of every table.
        tables: tables by the name in their marks.

    Raises:
        UserError: if a mark is missing.
    """
    for name, table in tables.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n?<!-- /{name} -->)", re.DOTALL)
        if not pattern.search(text):
            raise UserError(f"no place for the table: write <!-- {name} --> and <!-- /{name} -->")
        text = pattern.sub(
            lambda match, table=table: f"{match[1]}{table}\n{match[2].strip()}", text
        )
    return text


def fill_file(path: Path, tables: Dict[str, str]) -> None:
    """:func:`fill` a file, whole or not at all.

    Raises:
        UserError: if it cannot be read or written, or a mark is missing.
    """
    try:
        text = fill(Path(path).read_text(encoding="utf-8"), tables)
        partial = Path(f"{path}.partial")
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: give a file that can be written") from None
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
