"""Tables for the terminal."""

from dataclasses import dataclass, field
from typing import List


@dataclass
class Table:
    """
    Attributes:
        title: one line above.
        header: a heading for each column.
        rows: as many cells each; the first is a name.
        notes: lines below.
    """

    title: str
    header: List[str]
    rows: List[List[str]]
    notes: List[str] = field(default_factory=list)

    def text(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        table = [
            "  ".join(
                cell.rjust(width) if column else cell.ljust(width)
                for column, (cell, width) in enumerate(zip(line, widths))
            ).rstrip()
            for line in lines
        ]
        table.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([self.title, "", *table, *self.notes, ""])
