"""Mixing matrices as heat maps, by depth: Figure 2 of the paper, for sentences."""

from typing import Dict, List, NamedTuple, Optional, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from resmlp_mt.errors import UserError
from resmlp_mt.plot.mixing_matrices import SIDES, Layer
from resmlp_mt.plot.style import CM, COLUMN, PAGE, UNUSED, in_style, new_figure

ROWS = 16  # more rows of panels than that take the width of a page
MOST_HEADS = 8  # unless more are asked for


class Panel(NamedTuple):
    """A matrix, T x T; *causal* hides its upper triangle; *row* labels the first panel of a row."""

    matrix: np.ndarray
    causal: bool
    heading: str = ""
    row: str = ""


def arrange(matrices: Dict[Layer, Tensor], heads: Sequence[int]) -> List[List[Panel]]:
    """Rows of panels of these *heads*, from 1, with depth from left to right.

    With several heads, each has a row, and the decoder stands beside the encoder if there is room.
    Otherwise it stands below.
    """
    blocks = _blocks(matrices, 6)
    if len(heads) > 1 and len(matrices) <= 6:
        blocks = [sum(blocks, [])]
    elif len(blocks) * len(heads) > ROWS:
        blocks = _blocks(matrices, 12)
    rows = []
    for block in blocks:
        for head in heads:
            row = []
            for side, layer in block:
                if len(heads) > 1:
                    heading = f"{side}\nlayer {layer + 1}" if head == heads[0] else ""
                    label = f"head {head}"
                else:
                    heading, label = f"layer {layer + 1}", side
                matrix = matrices[side, layer][head - 1].numpy()
                row.append(Panel(matrix, side == "decoder", heading, "" if row else label))
            rows.append(row)
    return rows


def _blocks(matrices: Dict[Layer, Tensor], columns: int) -> List[List[Layer]]:
    """The layers of the encoder, then those of the decoder, at most *columns* in a row."""
    sides = [[layer for layer in matrices if layer[0] == side] for side in SIDES]
    return [some[i : i + columns] for some in sides for i in range(0, len(some), columns)]


def choose_heads(there_are: int, asked: Optional[Sequence[int]]) -> List[int]:
    """The heads to draw, from 1: those *asked* for, or the first 8."""
    for head in asked or ():
        if not 1 <= head <= there_are:
            raise UserError(f"--head {head}: this model has {there_are}")
    return list(asked or range(1, min(there_are, MOST_HEADS) + 1))


@in_style
def draw_matrices(rows: List[List[Panel]], title: Optional[str] = None) -> Figure:
    """Heat maps: zero white, positive red, negative blue, each scaled by its largest weight."""
    columns = max(map(len, rows))
    width = PAGE if columns > 6 else COLUMN
    headings = sum(
        max(panel.heading.count("\n") + 1 for panel in row if panel.heading)
        for row in rows
        if row[0].heading
    )
    side = (width - 1.0 * CM) / columns
    figure = new_figure(width, len(rows) * side + (headings * 0.28 + 1.8) * CM, title)
    figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.01)  # type: ignore
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for axes in grid.flat:
        axes.set_visible(False)
    for number, (row, places) in enumerate(zip(rows, grid)):
        below = rows[number + 1] if number + 1 < len(rows) else []
        for column, (panel, axes) in enumerate(zip(row, places)):
            axes.set_visible(True)
            image = _show(axes, panel)
            if column:
                axes.tick_params(labelleft=False)
            else:
                axes.set_ylabel(f"{panel.row}\nwritten t".strip())
            if column < len(below):
                axes.tick_params(labelbottom=False)
            else:
                axes.set_xlabel("read s")
    scale = figure.colorbar(
        image,
        ax=grid,
        location="bottom",
        aspect=40,
        shrink=0.8,
        pad=0.02,
        ticks=[-1, -0.5, 0, 0.5, 1],
    )
    scale.set_label("weight A[t, s], divided by the largest of its matrix")
    scale.outline.set_linewidth(0.5)
    return figure


def _show(axes, panel: Panel):
    shown = panel.matrix / (np.abs(panel.matrix).max() or 1.0)
    if panel.causal:
        shown = np.ma.masked_array(shown, np.triu(np.ones_like(shown, dtype=bool), 1))
    axes.set_facecolor(UNUSED)
    image = axes.imshow(shown, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="none")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(2, integer=True))
    if panel.heading:
        axes.set_title(panel.heading)
    return image
