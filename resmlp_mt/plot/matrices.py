"""Mixing matrices as heat maps, by depth: as Figure 2 of the paper, for sentences."""

from typing import Dict, List, NamedTuple, Optional, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from resmlp_mt.checkpoints.inspection import SIDES, Layer
from resmlp_mt.plot.style import CM, COLUMN, PAGE, UNUSED, color_bar, in_style, new_figure

ROWS = 16  # more rows of panels than that take the width of a page


class Panel(NamedTuple):
    """One matrix.

    Attributes:
        matrix: T x T.
        causal: whether its upper triangle does not exist.
        heading: above it.
        row: left of it, for the first of a row.
    """

    matrix: np.ndarray
    causal: bool
    heading: str = ""
    row: str = ""


def layers_of(matrices: Dict[Layer, Tensor], side: str) -> List[int]:
    """Layer numbers of one side, in order."""
    return sorted(layer for where, layer in matrices if where == side)


def layer_rows(matrices: Dict[Layer, Tensor], columns: int) -> List[List[Layer]]:
    """The layers of the encoder, then those of the decoder, at most *columns* in a row."""
    sides = [[(side, layer) for layer in layers_of(matrices, side)] for side in SIDES]
    return [
        keys[start : start + columns] for keys in sides for start in range(0, len(keys), columns)
    ]


def arrange(matrices: Dict[Layer, Tensor], heads: Sequence[int]) -> List[List[Panel]]:
    """Rows of panels, depth from left to right.

    One head: the encoder above the decoder. Several: a row for each head, the encoder beside the
    decoder where both have room, else above it.

    Args:
        matrices: H x T x T by side and layer.
        heads: numbers of the heads to show, from 1.
    """
    blocks = layer_rows(matrices, 6)
    if len(heads) > 1 and len(matrices) <= 6:
        blocks = [sum(blocks, [])]
    elif len(blocks) * len(heads) > ROWS:
        blocks = layer_rows(matrices, 12)
    rows = []
    for block in blocks:
        for head in heads:
            first_row, row = head == heads[0], []
            for side, layer in block:
                if len(heads) > 1:
                    heading = f"{side}\nlayer {layer + 1}" if first_row else ""
                    label = f"head {head}"
                else:
                    heading, label = f"layer {layer + 1}", side
                matrix = matrices[side, layer][head - 1].numpy()
                row.append(Panel(matrix, side == "decoder", heading, "" if row else label))
            rows.append(row)
    return rows


@in_style
def draw_matrices(rows: List[List[Panel]], title: Optional[str] = None) -> Figure:
    """Heat maps: zero white, positive red, negative blue, each by its own largest weight.

    Args:
        rows: what :func:`arrange` gives.
        title: heading of the whole.
    """
    columns = max(map(len, rows))
    width = PAGE if columns > 6 else COLUMN
    headings = sum(
        max(panel.heading.count("\n") + 1 for panel in row if panel.heading)
        for row in rows
        if row[0].heading
    )
    side = (width - 1.0 * CM) / columns
    figure = new_figure(width, len(rows) * side + (headings * 0.28 + 1.8) * CM, title)
    figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.01)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for axes in grid.flat:
        axes.set_visible(False)
    for number, (row, places) in enumerate(zip(rows, grid)):
        for column, (panel, axes) in enumerate(zip(row, places)):
            axes.set_visible(True)
            image = _show(axes, panel)
            below = rows[number + 1] if number + 1 < len(rows) else []
            if column:
                axes.tick_params(labelleft=False)
            else:
                axes.set_ylabel(f"{panel.row}\nwritten t".strip())
            if column < len(below):
                axes.tick_params(labelbottom=False)
            else:
                axes.set_xlabel("read s")
    label = "weight A[t, s], divided by the largest of its matrix"
    color_bar(figure, image, grid, label, pad=0.02, ticks=[-1, -0.5, 0, 0.5, 1])
    return figure


def _show(axes, panel: Panel):
    largest = np.abs(panel.matrix).max() or 1.0
    shown = panel.matrix / largest
    if panel.causal:
        future = np.triu(np.ones_like(shown, dtype=bool), 1)
        shown = np.ma.masked_array(shown, future)
    axes.set_facecolor(UNUSED)
    image = axes.imshow(shown, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="none")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(2, integer=True))
    if panel.heading:
        axes.set_title(panel.heading)
    return image
