"""How the pictures look, and how they are written.

They have the size at which they are printed, a column of 8 cm or a page of 17, with letters of 6
points or more. Lines differ in colour (Okabe and Ito's palette) and in marker or dash, for
colour-blind readers and grey prints.
"""

import logging
import textwrap
from collections.abc import Sequence
from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure

from resmlp_mt.errors import UserError
from resmlp_mt.files import check_output, whole_file

# a first run builds a cache of fonts, and would say so
logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)

CM = 1 / 2.54  # inches
COLUMN, PAGE = 8 * CM, 17 * CM
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":")
GREY = "#777777"
UNUSED = "#E4E4E4"  # where a triangular matrix has no weight
in_style = style.context(Path(__file__).with_name("resmlp_mt.mplstyle"))  # decorates what draws


def new_figure(width: float, height: float, title: str | None = None) -> Figure:
    """An empty figure that keeps all labels inside, sizes in inches. A *title* adds its height."""
    room = 0.5 * CM if title else 0
    figure = Figure(figsize=(width, height + room), layout="constrained")
    if title:
        figure.suptitle(textwrap.fill(title, int(width / COLUMN * 50)))
    return figure


def look(number: int) -> dict:
    """Colour, marker and dash of a line. The dash changes each time the colours repeat."""
    return {
        "color": COLORS[number % len(COLORS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": DASHES[number // len(COLORS) % len(DASHES)],
    }


def check_pictures(paths: Sequence[Path]) -> None:
    """Refuse what could not be written, before anything is computed."""
    for path in paths:
        if path.suffix not in (".png", ".svg"):
            raise UserError(f"{path}: name a .png or .svg file")
        check_output(path)


@in_style
def save(figure: Figure, *paths: Path) -> None:
    """Write a figure to each of *paths*, whole or not at all. The suffix chooses the format."""
    for path in paths:
        metadata = {"Date": None} if path.suffix == ".svg" else None
        with whole_file(path) as temporary:
            figure.savefig(temporary, format=path.suffix[1:], dpi=300, metadata=metadata)
