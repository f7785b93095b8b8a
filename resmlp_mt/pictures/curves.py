"""Learning curves: of one training with its training loss, or of several to compare."""

from typing import Dict, Optional

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from resmlp_mt.analysis.curves import Points
from resmlp_mt.pictures.style import (
    CM,
    COLUMN,
    GREY,
    color,
    dash,
    in_style,
    legend_below,
    marker,
    new_figure,
)


@in_style
def draw_curves(curves: Dict[str, Dict[str, Points]], title: Optional[str] = None) -> Figure:
    """Validation nll by update, and that of training too where there is one curve alone.

    Args:
        curves: what :func:`resmlp_mt.analysis.curves.read_curves` gives.
        title: heading of the picture.
    """
    short = len(curves) > 3 and max(map(len, curves)) <= 20
    columns = 2 if short or len(curves) == 1 else 1
    legend_rows = -(-len(curves) // columns) + (len(curves) > 1)
    figure = new_figure(COLUMN, (5.2 + 0.32 * legend_rows) * CM, title)
    axes = figure.subplots()
    handles: Dict[str, Line2D] = {}
    if len(curves) == 1:
        (curve,) = curves.values()
        if curve["train"]:
            (handles["training"],) = axes.plot(*zip(*curve["train"]), color=GREY, linewidth=0.6)
        if curve["valid"]:
            (handles["validation"],) = axes.plot(*zip(*curve["valid"]), marker="o", color=color(0))
            if curve["train"]:
                # the first updates' loss, far above all that follows, runs out of the picture
                low = min(nll for points in curve.values() for _, nll in points)
                axes.set_ylim(0.9 * low, 1.3 * max(nll for _, nll in curve["valid"]))
    else:
        for number, (label, curve) in enumerate(curves.items()):
            some = curve["valid"] or curve["train"]
            (handles[f"{label} ({some[-1][1]:.2f})"],) = axes.plot(
                *zip(*some),
                color=color(number),
                linestyle=dash(number),
                marker=marker(number) if curve["valid"] else "",
            )
    alone = len(curves) == 1 or not all(curve["valid"] for curve in curves.values())
    kind = "" if alone else "validation "
    axes.set(xlabel="update", ylabel=f"{kind}nll (bits a token)")
    axes.grid(True)
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    heading = "last value in brackets" if len(curves) > 1 else None
    legend_below(figure, handles.values(), handles, columns, heading)
    return figure
