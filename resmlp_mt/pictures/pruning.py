"""BLEU against the share of weights that were pruned."""

from typing import Optional

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from resmlp_mt.analysis.pruning_sweep import WHICH, WHOLE, lines
from resmlp_mt.pictures.style import (
    CM,
    COLUMN,
    GREY,
    color,
    in_style,
    legend_below,
    marker,
    new_figure,
)

NAMES = {"A": "A (positions)", "B": "B (fc1)", "C": "C (fc2)", "all": "A, B and C"}


@in_style
def draw_pruning(result: dict, title: Optional[str] = None) -> Figure:
    """A line for each of A, B, C and all.

    Args:
        result: what :func:`resmlp_mt.analysis.pruning_sweep.read_sweep` gives, with a point besides
            that of the whole checkpoint.
        title: heading of the picture.
    """
    found = lines(result)
    figure = new_figure(COLUMN, 6 * CM, title)
    axes = figure.subplots()
    for kind, points in found.items():
        number = WHICH.index(kind)
        axes.plot(
            [100 * point["removed"] for point in points],
            [point["bleu"] for point in points],
            color=color(number),
            marker=marker(number),
            label=NAMES[kind],
            clip_on=False,
        )
    for point in result["points"]:
        if point["which"] == WHOLE:
            axes.axhline(
                point["bleu"], color=GREY, linewidth=0.6, linestyle=":", label="not pruned"
            )
    axes.set(xlabel="weights removed from these matrices", ylabel="sacreBLEU")
    axes.xaxis.set_major_formatter(PercentFormatter(decimals=0))
    axes.set_ylim(bottom=0)
    axes.grid(True)
    legend_below(figure, *axes.get_legend_handles_labels(), 3)
    return figure
