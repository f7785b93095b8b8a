"""BLEU against the share of weights that were pruned."""

from typing import Optional

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from resmlp_mt.analysis.pruning_sweep import WHICH, WHOLE, lines
from resmlp_mt.pictures.style import CM, COLUMN, GREY, in_style, legend_below, look, new_figure

NAMES = {"A": "A (positions)", "B": "B (fc1)", "C": "C (fc2)", "all": "A, B and C"}


@in_style
def draw_pruning(result: dict, title: Optional[str] = None) -> Figure:
    """A line for each of A, B, C and all.

    Args:
        result: what :func:`resmlp_mt.analysis.pruning_sweep.read_sweep` returns.
        title: heading of the picture.
    """
    figure = new_figure(COLUMN, 6 * CM, title)
    axes = figure.subplots()
    for kind, points in lines(result).items():
        removed = [100 * point["removed"] for point in points]
        bleu = [point["bleu"] for point in points]
        axes.plot(removed, bleu, label=NAMES[kind], clip_on=False, **look(WHICH.index(kind)))
    for point in result["points"]:
        if point["which"] == WHOLE:
            line = {"color": GREY, "linewidth": 0.6, "linestyle": ":"}
            axes.axhline(point["bleu"], label="not pruned", **line)
    axes.set(xlabel="weights removed from these matrices", ylabel="sacreBLEU")
    axes.xaxis.set_major_formatter(PercentFormatter(decimals=0))
    axes.set_ylim(bottom=0)
    axes.grid(True)
    legend_below(figure, *axes.get_legend_handles_labels(), 3)
    return figure
