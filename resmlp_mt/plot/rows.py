"""Rows of the mixing matrices as curves, over the distance between the two positions."""

from typing import Optional

from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from resmlp_mt.checkpoints.inspection import SIDES
from resmlp_mt.plot.matrices import layer_rows, layers_of
from resmlp_mt.plot.mixing_rows import MixingRows
from resmlp_mt.plot.style import (
    CM,
    COLUMN,
    DASHES,
    GREY,
    PAGE,
    color,
    in_style,
    legend_below,
    new_figure,
)


@in_style
def draw_rows(found: MixingRows, reach: int, title: Optional[str] = None) -> Figure:
    """A panel for each layer, the encoder above the decoder, distances up to *reach*."""
    panels = found.panels
    depth = max(len(layers_of(panels, side)) for side in SIDES)
    columns = min(depth, 3 if depth <= 6 else 6)
    width = COLUMN if columns <= 3 else PAGE
    rows = layer_rows(panels, columns)
    labels = [curve.label for curve in next(iter(panels.values()))]
    legend_rows = -(-len(labels) // (4 if width == COLUMN else 8))
    figure = new_figure(width, (len(rows) * 2.8 + 0.6 + 0.35 * legend_rows) * CM, title)
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0.02, hspace=0.03)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for row, places in zip(rows, grid):
        for axes in places[len(row) :]:
            axes.axis("off")
        for (side, layer), axes in zip(row, places):
            handles = [
                axes.plot(curve.x, curve.y, **_look(found.of, number, len(labels)))[0]
                for number, curve in enumerate(panels[side, layer])
            ]
            axes.set_title(f"{side} {layer + 1}")
            axes.axhline(0, color=GREY, linewidth=0.4, zorder=0)
            axes.axvline(0, color=GREY, linewidth=0.4, zorder=0)
            axes.set_xlim(-reach, reach if side == "encoder" else 0)
            axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
            axes.yaxis.set_major_locator(MaxNLocator(4))
            axes.set_xlabel("s - t")
        places[0].set_ylabel("A[t, s]")
    heading = f"a curve is a {found.of} (t: position written, s: position read)"
    legend_below(figure, handles, labels, -(-len(labels) // legend_rows), heading)
    return figure


def _look(of: str, number: int, count: int) -> dict:
    if of == "head":
        return {"color": color(number), "linestyle": DASHES[number % 2]}
    # rows have an order: dark to light
    shade = colormaps["viridis"](0.85 * number / max(1, count - 1))
    return {"color": shade, "linestyle": DASHES[number % len(DASHES)]}
