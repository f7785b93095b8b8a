"""How the pictures look, and how they are written.

Every picture is drawn at the size at which it is printed, a column of 8 cm or a page of 17, with no
letter below 6 points. Lines differ in colour (the palette of Okabe and Ito, for colour-blind
readers) and in marker or dash, for a print in grey. A system has one name, colour and marker in
every picture: :data:`SYSTEMS`. The background is white, also where the page around it is dark.
"""

import functools
import re
import textwrap
from pathlib import Path
from typing import Dict, Iterable, Optional, Sequence

import matplotlib
from matplotlib.figure import Figure

from resmlp_mt.errors import UserError
from resmlp_mt.files import check_output, whole_file

CM = 1 / 2.54  # inches
COLUMN, PAGE = 8 * CM, 17 * CM
SMALL, NORMAL = 6, 7  # points
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":")
# colour and marker by name
SYSTEMS = {
    "Transformer": ("#000000", "o"),
    "ResMLP": ("#0072B2", "s"),
    "ResMLP, Toeplitz": ("#D55E00", "^"),
    "ResMLP, convolutions": ("#009E73", "D"),
    "ResMLP, gated": ("#CC79A7", "v"),
    "LSTM": ("#56B4E9", "P"),
    "ConvS2S": ("#8C6D31", "X"),
}
# how the names of architectures begin, fairseq's and ours
ARCHITECTURES = {
    "resmlp_mt_toeplitz_": "ResMLP, Toeplitz, ",
    "resmlp_mt_conv_": "ResMLP, convolutions, ",
    "resmlp_mt_gated_": "ResMLP, gated, ",
    "resmlp_mt_": "ResMLP, ",
    "transformer_": "Transformer, ",
    "transformer": "Transformer",
}
GREY = "#777777"
UNUSED = "#E4E4E4"  # where a triangular matrix has no weight
SUFFIXES = (".png", ".svg")
STYLE = {
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
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
    """Make a function draw in this style."""

    @functools.wraps(draw)
    def wrapped(*args, **kwargs):
        with matplotlib.rc_context(STYLE):
            return draw(*args, **kwargs)

    return wrapped


def new_figure(width: float, height: float, title: Optional[str] = None) -> Figure:
    """An empty figure that keeps all labels inside. Sizes in inches.

    A *title* adds its height. It is broken where it is wider than the picture.
    """
    room = 0.5 * CM if title else 0
    figure = Figure(figsize=(width, height + room), layout="constrained")
    if title:
        figure.suptitle(textwrap.fill(title, int(width / COLUMN * 50)))
    return figure


def legend_below(
    figure: Figure, handles, labels, columns: int, title: Optional[str] = None
) -> None:
    """A legend under all axes of a figure."""
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, title=title)


def color_bar(figure: Figure, image, axes, label: str, **options) -> None:
    """A scale of the colours of *image* under all *axes*."""
    bar = figure.colorbar(image, ax=axes, location="bottom", aspect=40, shrink=0.8, **options)
    bar.set_label(label)
    bar.outline.set_linewidth(0.5)


def in_words(label: str) -> str:
    """The name of an architecture as the name of a system and a size: ``ResMLP, 6 + 6 int8``."""
    for start, name in ARCHITECTURES.items():
        if label.startswith(start):
            return name + re.sub(r"^(\d+)\b", r"\1 + \1", label.removeprefix(start))
    return label


def looks(labels: Iterable[str]) -> Dict[str, dict]:
    """The :func:`look` of each line of a picture.

    A label that begins with the name of a system has its colour and marker. A second one of the
    same system is dashed, with an empty marker: ``ResMLP, 6 + 6 layers``.
    """
    found: Dict[str, dict] = {}
    system_of: Dict[str, Optional[str]] = {}
    for label in labels:
        fits = [name for name in SYSTEMS if re.match(rf"{re.escape(name)}\b", label)]
        system = max(fits, key=len, default=None)
        before = list(system_of.values()).count(system)
        system_of[label] = system
        if system is None:
            found[label] = look(before)
            continue
        color, marker = SYSTEMS[system]
        found[label] = {"color": color, "marker": marker, "linestyle": DASHES[before % len(DASHES)]}
        if before:
            found[label]["markerfacecolor"] = "white"
    return found


def color(number: int) -> str:
    return COLORS[number % len(COLORS)]


def look(number: int) -> dict:
    """Colour, marker and dash of a line. The dash changes each time that the colours repeat."""
    dash = DASHES[number // len(COLORS) % len(DASHES)]
    marker = MARKERS[number % len(MARKERS)]
    return {"color": color(number), "marker": marker, "linestyle": dash}


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
    """Write a figure to each of *paths*, whole or not at all. The suffix chooses the format.

    Raises:
        UserError: a suffix other than .png and .svg, or a file that cannot be written.
    """
    check_pictures(paths)
    for path in map(Path, paths):
        metadata = {"Date": None} if path.suffix == ".svg" else None
        try:
            with whole_file(path) as temporary:
                figure.savefig(temporary, format=path.suffix[1:], dpi=300, metadata=metadata)
        except OSError as error:
            raise UserError(
                f"{path} could not be written ({error.strerror}): choose another folder"
            ) from None
