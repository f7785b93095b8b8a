"""The cross-attention of one sentence as a heat map, pieces of the two sentences as its axes."""

from typing import Optional, Sequence

from matplotlib.figure import Figure

from resmlp_mt.analysis.cross_attention import CrossAttention
from resmlp_mt.pictures.style import CM, COLUMN, SMALL, in_style, new_figure

CELL = 0.24 * CM  # what a line of small letters needs
LETTER = 0.62 * SMALL / 72  # inches


@in_style
def draw_attention(
    attention: CrossAttention, layers: Sequence[int], title: Optional[str] = None
) -> Figure:
    """A panel for each layer, one below the other: white 0, black 1.

    Args:
        attention: what :func:`resmlp_mt.analysis.cross_attention.cross_attention` gives.
        layers: which, from 1.
        title: heading of the picture.
    """
    columns, rows = len(attention.source), len(attention.target)
    left = max(map(len, attention.target)) * LETTER + 0.6 * CM
    above = max(map(len, attention.source)) * LETTER + 0.8 * CM
    width = max(COLUMN, left + columns * CELL)
    panel = rows * min(1.2 * CELL, (width - left) / columns) + 0.1 * CM
    figure = new_figure(width, above + len(layers) * panel + 1.2 * CM, title)
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, hspace=0.02)
    grid = figure.subplots(len(layers), 1, squeeze=False)[:, 0]
    for layer, axes in zip(layers, grid):
        image = axes.imshow(
            attention.weights[layer - 1].numpy(),
            cmap="Greys",
            vmin=0,
            vmax=1,
            aspect="auto",
            interpolation="none",
        )
        axes.set_yticks(range(rows), attention.target)
        axes.tick_params(length=0)
        axes.tick_params(axis="x", top=False, bottom=False, labelbottom=False)
        if axes is grid[0]:
            axes.tick_params(labeltop=True)
            axes.set_xticks(range(columns), attention.source, rotation=90)
            axes.set_xlabel("source")
            axes.xaxis.set_label_position("top")
        else:
            axes.set_xticks([])
        axes.set_ylabel("translation" + (f"\nlayer {layer}" if len(layers) > 1 else ""))
    bar = figure.colorbar(image, ax=grid, location="bottom", aspect=40, shrink=0.8, pad=0.01)
    bar.set_label("attention weight")
    bar.outline.set_linewidth(0.5)
    return figure
