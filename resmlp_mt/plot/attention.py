"""The cross-attention of one sentence as a heat map, pieces of the two sentences as its axes."""

from typing import Optional, Sequence

from matplotlib.figure import Figure

from resmlp_mt.plot.cross_attention import CrossAttention
from resmlp_mt.plot.style import CM, COLUMN, SMALL, color_bar, in_style, new_figure

CELL = 0.24 * CM  # what a line of small letters needs
LETTER = 0.62 * SMALL / 72  # inches


@in_style
def draw_attention(
    attention: CrossAttention, layers: Sequence[int], title: Optional[str] = None
) -> Figure:
    """A panel for each of *layers*, counted from 1, one below the other: white 0, black 1."""
    columns, rows = len(attention.source), len(attention.target)
    left = max(map(len, attention.target)) * LETTER + 0.6 * CM
    above = max(map(len, attention.source)) * LETTER + 0.8 * CM
    width = max(COLUMN, left + columns * CELL)
    panel = rows * min(1.2 * CELL, (width - left) / columns) + 0.1 * CM
    figure = new_figure(width, above + len(layers) * panel + 1.2 * CM, title)
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, hspace=0.02)
    grid = figure.subplots(len(layers), 1, squeeze=False)[:, 0]
    look = {"cmap": "Greys", "vmin": 0, "vmax": 1, "aspect": "auto", "interpolation": "none"}
    for layer, axes in zip(layers, grid):
        image = axes.imshow(attention.weights[layer - 1].numpy(), **look)
        axes.set_yticks(range(rows), attention.target)
        axes.set_xticks([])
        axes.tick_params(length=0)
        axes.set_ylabel("translation" + (f"\nlayer {layer}" if len(layers) > 1 else ""))
    top = grid[0]
    top.xaxis.tick_top()
    top.set_xticks(range(columns), attention.source, rotation=90)
    top.tick_params(length=0)
    top.set_xlabel("source")
    top.xaxis.set_label_position("top")
    color_bar(figure, image, grid, "attention weight", pad=0.01)
    return figure
