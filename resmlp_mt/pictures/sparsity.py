"""The paper's sparsity figure: weights below 5% of their matrix's maximum, A against B and C."""

from typing import Dict, Optional

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from resmlp_mt.analysis.pruning import Count
from resmlp_mt.checkpoints.inspection import SIDES, Layer, layers_of
from resmlp_mt.pictures.style import (
    CM,
    COLUMN,
    color,
    in_style,
    marker,
    new_figure,
    set_title,
)

KINDS = ("A", "B", "C")


@in_style
def draw_sparsity(
    counts: Dict[str, Dict[Layer, Count]],
    threshold: float,
    of_a: str,
    triangle: bool,
    title: Optional[str] = None,
) -> Figure:
    """A line for each kind of matrix over the layers, the encoder beside the decoder.

    Args:
        counts: what :func:`resmlp_mt.analysis.pruning.sparsity` gives.
        threshold: what they are below, a share of the maximum.
        of_a: which of A's weights were counted.
        triangle: whether, in the decoder, they are those of the lower triangle.
        title: heading of the whole.
    """
    names = {"A": f"A ({of_a})", "B": "B (fc1)", "C": "C (fc2)"}
    figure = new_figure(COLUMN, (5 + (0.5 if title else 0)) * CM)
    grid = figure.subplots(1, 2, sharey=True)
    for side, axes in zip(SIDES, grid):
        for look, kind in enumerate(KINDS):
            if kind not in counts:
                continue
            by_layer = counts[kind]
            layers = layers_of(by_layer, side)
            axes.plot(
                [layer + 1 for layer in layers],
                [100 * by_layer[side, layer].share for layer in layers],
                color=color(look),
                marker=marker(look),
                label=names[kind],
            )
        note = " (A: its triangle)" if side == "decoder" and triangle else ""
        axes.set(title=side + note, xlabel="layer")
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
        axes.grid(True)
        axes.set_xlim(0.5, len(layers) + 0.5)
    grid[0].set_ylabel(f"weights below {threshold:.0%} of\ntheir matrix's maximum")
    top = max(count.share for by_layer in counts.values() for count in by_layer.values())
    grid[0].set_ylim(0, min(102, max(5, 112 * top)))
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    set_title(figure, title)
    return figure
