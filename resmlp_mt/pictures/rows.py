"""Rows of the mixing matrices as curves: are they shifted copies of each other?

Drawn over s - t, how far the position that is read lies from the one that is written, copies fall
onto each other. Where the weights are by distance they are copies by construction: then each curve
is a head.
"""

from typing import Dict, List, NamedTuple, Optional, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from resmlp_mt.checkpoints.inspection import SIDES, Layer, layers_of
from resmlp_mt.pictures.style import (
    CM,
    COLUMN,
    DASHES,
    GREY,
    PAGE,
    color,
    in_style,
    new_figure,
    set_title,
)


class Curve(NamedTuple):
    """A row of a matrix.

    Attributes:
        label: in the legend.
        x: s, or s - t.
        y: the weights.
    """

    label: str
    x: np.ndarray
    y: np.ndarray


def middle_rows(length: int, number: int = 4) -> List[int]:
    """*number* of a matrix's rows, evenly spaced, neither the first nor the last."""
    return sorted({(i + 1) * length // (number + 1) for i in range(number)})


def row_curves(
    matrix: Tensor, causal: bool, head: int, rows: Sequence[int], relative: bool = True
) -> List[Curve]:
    """Some rows of one head's matrix.

    Args:
        matrix: H x T x T.
        causal: whether position t reads s <= t alone.
        head: from 1.
        rows: t of each.
        relative: over s - t, not s.
    """
    curves = []
    for t in rows:
        read = np.arange(t + 1 if causal else matrix.size(2))
        weights = matrix[head - 1, t, : len(read)].numpy()
        curves.append(Curve(f"t = {t}", read - t if relative else read, weights))
    return curves


def distance_curves(matrix: Tensor, causal: bool, heads: Sequence[int]) -> List[Curve]:
    """The weight by distance s - t of each head, where it depends on nothing else.

    Args:
        matrix: H x T x T, Toeplitz.
        causal: whether position t reads s <= t alone.
        heads: from 1.
    """
    length = matrix.size(1)
    last, first = matrix[:, length - 1].numpy(), matrix[:, 0].numpy()
    curves = []
    for head in heads:
        y = last[head - 1] if causal else np.concatenate([last[head - 1], first[head - 1, 1:]])
        curves.append(Curve(f"head {head}", np.arange(len(y)) - (length - 1), y))
    return curves


@in_style
def draw_rows(
    panels: Dict[Layer, List[Curve]],
    reach: Optional[int] = None,
    relative: bool = True,
    title: Optional[str] = None,
) -> Figure:
    """A panel for each layer, the encoder's above the decoder's.

    Args:
        panels: curves by side and layer, the same labels in each.
        reach: with *relative*: the largest distance shown; default: all.
        relative: whether curves are over s - t.
        title: heading of the whole.
    """
    depth = max(len(layers_of(panels, side)) for side in SIDES)
    columns = min(depth, 3 if depth <= 6 else 6)
    width = COLUMN if columns <= 3 else PAGE
    rows = [
        [(side, layer) for layer in layers_of(panels, side)[start : start + columns]]
        for side in SIDES
        for start in range(0, len(layers_of(panels, side)), columns)
    ]
    labels = [curve.label for curve in next(iter(panels.values()))]
    legend_rows = -(-len(labels) // (4 if width == COLUMN else 8))
    height = (len(rows) * 2.8 + 0.6 + 0.35 * legend_rows + (0.5 if title else 0)) * CM
    figure = new_figure(width, height)
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0.02, hspace=0.03)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for row, places in zip(rows, grid):
        for axes in places[len(row) :]:
            axes.axis("off")
        for (side, layer), axes in zip(row, places):
            handles = [
                axes.plot(curve.x, curve.y, **_look(number, labels))[0]
                for number, curve in enumerate(panels[side, layer])
            ]
            axes.set_title(f"{side} {layer + 1}")
            axes.axhline(0, color=GREY, linewidth=0.4, zorder=0)
            if relative:
                axes.axvline(0, color=GREY, linewidth=0.4, zorder=0)
            if relative and reach is not None:
                axes.set_xlim(-reach, reach if side == "encoder" else 0)
            axes.xaxis.set_major_locator(MaxNLocator(3, integer=True))
            axes.yaxis.set_major_locator(MaxNLocator(4))
            axes.set_xlabel("s - t" if relative else "s")
            if axes is places[0]:
                axes.set_ylabel("A[t, s]")
    curve = "a curve is a head" if labels[0].startswith("head") else "a curve is a row t"
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=-(-len(labels) // legend_rows),
        title=f"{curve}; t: position written, s: position read",
    )
    set_title(figure, title)
    return figure


def _look(number: int, labels: Sequence[str]) -> dict:
    if labels[0].startswith("head"):
        return {"color": color(number), "linestyle": DASHES[number % 2]}
    # rows have an order: dark to light
    return {
        "color": colormaps["viridis"](0.85 * number / max(1, len(labels) - 1)),
        "linestyle": DASHES[number % len(DASHES)],
    }
