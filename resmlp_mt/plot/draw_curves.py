"""Learning curves: of one training with its training loss, or of several to compare."""

from typing import Dict, Optional

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from resmlp_mt.plot.curves import Points
from resmlp_mt.plot.style import CM, COLUMN, GREY, in_style, legend_below, looks, new_figure


@in_style
def draw_curves(curves: Dict[str, Dict[str, Points]], title: Optional[str] = None) -> Figure:
    """Validation nll by update, and for a single curve the nll of training too.

    Args:
        curves: what :func:`resmlp_mt.plot.curves.read_curves` returns.
        title: heading of the picture.
    """
    several = len(curves) > 1
    short = len(curves) > 3 and max(map(len, curves)) <= 20
    columns = 2 if short or not several else 1
    legend_rows = -(-len(curves) // columns) + several
    figure = new_figure(COLUMN, (5.2 + 0.32 * legend_rows) * CM, title)
    axes = figure.subplots()
    handles: Dict[str, Line2D] = {}
    if several:
        for name, look in looks(curves).items():
            points = curves[name]["valid"] or curves[name]["train"]
            marker = look["marker"] if curves[name]["valid"] else ""
            label = f"{name} ({points[-1][1]:.2f})"
            (handles[label],) = axes.plot(*zip(*points), **{**look, "marker": marker})
    else:
        ((name, curve),) = curves.items()
        look = looks([name])[name]
        if curve["train"]:
            (handles["training"],) = axes.plot(*zip(*curve["train"]), color=GREY, linewidth=0.6)
        if curve["valid"]:
            (handles["validation"],) = axes.plot(*zip(*curve["valid"]), **look)
        if curve["train"] and curve["valid"]:
            # the training loss of the first updates is far above all others: it is cut off
            low = min(nll for points in curve.values() for _, nll in points)
            axes.set_ylim(0.9 * low, 1.3 * max(nll for _, nll in curve["valid"]))
    validation = several and all(curve["valid"] for curve in curves.values())
    axes.set(xlabel="update", ylabel=f"{'validation ' * validation}nll (bits a token)")
    axes.grid(True)
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    heading = "last value in brackets" if several else None
    legend_below(figure, handles.values(), handles, columns, heading)
    return figure
