"""The style of the pictures, and atomic writing.

Pictures have their printed width, a column of 8 cm or a page of 17, and fonts of 6 points or more.
"""

import textwrap
from pathlib import Path

from matplotlib import style
from matplotlib.figure import Figure

from resmlp_mt_runtime.files import whole_file

CM = 1 / 2.54  # inches
COLUMN, PAGE = 8 * CM, 17 * CM
UNUSED = "#E4E4E4"  # the upper triangle of a causal matrix
# a decorator, without what a matplotlibrc of the user's or of the working directory says
in_style = style.context(Path(__file__).with_name("resmlp_mt.mplstyle"), after_reset=True)


def new_figure(width: float, height: float, title: str | None = None) -> Figure:
    """An empty figure, sizes in inches, which a *title* makes higher."""
    title_height = 0.5 * CM if title else 0
    figure = Figure(figsize=(width, height + title_height), layout="constrained")
    if title:
        figure.suptitle(textwrap.fill(title, int(width / COLUMN * 50)))
    return figure


@in_style
def save(figure: Figure, path: Path) -> None:
    """Write a figure atomically, in the format of the suffix."""
    metadata = {"Date": None} if path.suffix == ".svg" else None
    with whole_file(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=300, metadata=metadata)
