"""The sparsity figure of the paper: weights below 5% of the maximum of their matrix."""

from typing import Optional

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from resmlp_mt.checkpoints.inspection import SIDES
from resmlp_mt.plot.matrices import layers_of
from resmlp_mt.plot.pruning import KINDS, Sparsity
from resmlp_mt.plot.style import CM, COLUMN, in_style, legend_below, look, new_figure


@in_style
def draw_sparsity(found: Sparsity, title: Optional[str] = None) -> Figure:
    """A line for each kind of matrix over the layers, the encoder beside the decoder."""
    names = {"A": f"A ({found.weights_of_a})", "B": "B (fc1)", "C": "C (fc2)"}
    figure = new_figure(COLUMN, 5 * CM, title)
    grid = figure.subplots(1, 2, sharey=True)
    for side, axes in zip(SIDES, grid):
        for kind, counts in found.counts.items():
            layers = layers_of(counts, side)
            numbers = [layer + 1 for layer in layers]
            shares = [100 * counts[side, layer].share for layer in layers]
            axes.plot(numbers, shares, label=names[kind], **look(KINDS.index(kind)))
        note = " (A: its triangle)" if side == "decoder" and found.triangle else ""
        axes.set(title=side + note, xlabel="layer", xlim=(0.5, len(layers) + 0.5))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
        axes.grid(True)
    grid[0].set_ylabel(f"weights below {found.threshold:.0%} of the\nmaximum of their matrix")
    top = max(count.share for counts in found.counts.values() for count in counts.values())
    grid[0].set_ylim(0, min(102, max(5, 112 * top)))
    legend_below(figure, *grid[0].get_legend_handles_labels(), 3)
    return figure
