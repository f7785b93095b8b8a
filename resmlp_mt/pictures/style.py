"""How the pictures look, and how they are written.

Every picture is drawn at the size at which it is printed, a column of 8 cm or a page of 17, with no
letter below 6 points. Lines differ in colour (Okabe and Ito's, told apart by colour-blind readers)
and in marker or dash, so that a print in grey is read too.
"""

import functools
import textwrap
from pathlib import Path
from typing import Optional, Sequence

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from resmlp_mt.errors import UserError
from resmlp_mt.files import check_output, whole_file

CM = 1 / 2.54  # inches
COLUMN, PAGE = 8 * CM, 17 * CM
SMALL, NORMAL = 6, 7  # points
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":")
GREY = "#777777"
UNUSED = "#E4E4E4"  # where a triangular matrix has no weight
SUFFIXES = (".png", ".svg")
STYLE = {
    "font.size": NORMAL,
    "axes.titlesize": NORMAL,
    "axes.labelsize": NORMAL,
    "figure.titlesize": NORMAL + 1,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.title_fontsize": SMALL,
    "axes.linewidth": 0.5,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.major.size": 2,
    "ytick.major.size": 2,
    "xtick.major.pad": 2,
    "ytick.major.pad": 2,
    "axes.titlepad": 3,
    "axes.labelpad": 2,
    "axes.grid.axis": "y",
    "grid.linewidth": 0.4,
    "grid.alpha": 0.5,
    "lines.linewidth": 1,
    "lines.markersize": 3,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.borderaxespad": 0.2,
    "legend.columnspacing": 1,
    "text.parse_math": False,  # a $ in a piece or a name is a $
    "svg.hashsalt": "resmlp_mt",  # the same picture is the same file
}


def in_style(draw):
    """A function that draws does so in this style."""

    @functools.wraps(draw)
    def wrapped(*args, **kwargs):
        with plt.rc_context(STYLE):
            return draw(*args, **kwargs)

    return wrapped


def new_figure(width: float, height: float, title: Optional[str] = None) -> Figure:
    """An empty figure, sizes in inches, that keeps all labels inside. A *title* adds its height."""
    room = 0.5 * CM if title else 0
    figure = Figure(figsize=(width, height + room), layout="constrained")
    set_title(figure, title)
    return figure


def set_title(figure: Figure, title: Optional[str]) -> None:
    """The heading of a figure, broken where it is wider than the picture."""
    if title:
        letters = int(figure.get_figwidth() / COLUMN * 50)
        figure.suptitle(textwrap.fill(title, letters))


def legend_below(
    figure: Figure, handles, labels, columns: int, title: Optional[str] = None
) -> None:
    """A legend under all axes of a figure."""
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, title=title)


def color(number: int) -> str:
    return COLORS[number % len(COLORS)]


def marker(number: int) -> str:
    return MARKERS[number % len(MARKERS)]


def dash(number: int) -> str:
    """Dashes of a line: another kind each time that the colours begin again."""
    return DASHES[number // len(COLORS) % len(DASHES)]


def check_pictures(paths: Sequence[Path]) -> None:
    """Refuse what could not be written, before anything is computed.

    Raises:
        UserError: naming the file.
    """
    for path in map(Path, paths):
        if path.suffix not in SUFFIXES:
            raise UserError(f"{path}: name a .png or .svg file")
        check_output(path)


@in_style
def save(figure: Figure, *paths: Path) -> None:
    """Write a figure to each of *paths*, whole or not at all; the suffix says the format.

    Raises:
        UserError: a suffix other than .png and .svg, or a file that cannot be written.
    """
    check_pictures(paths)
    for path in paths:
        _write(figure, path, dpi=300)


def save_for_screen(figure: Figure, path: Path) -> None:
    """:func:`save` for a figure that was laid out for a screen, not in this style; closes it."""
    check_pictures([path])
    _write(figure, path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def _write(figure: Figure, path: Path, **options) -> None:
    """*options* are those of ``Figure.savefig``."""
    suffix = Path(path).suffix
    metadata = {"Date": None} if suffix == ".svg" else None
    try:
        with whole_file(path) as temporary:
            figure.savefig(temporary, format=suffix[1:], metadata=metadata, **options)
    except OSError as error:
        raise UserError(
            f"{path} could not be written ({error.strerror}): choose a folder with room that can be"
        ) from None
