"""Learning curves of one training, or of several to compare, from their logs."""

import os
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.train.log import read_curve
from resmlp_mt.plot.style import CM, COLUMN, GREY, in_style, look, new_figure

# "train" and "valid": (update, nll in bits per token)
Curve = dict[str, list[tuple[int, float]]]


def read_curves(files: Sequence[str]) -> dict[str, Curve]:
    """Curves by label, from logs of fairseq-train. The label of ``FILE`` is its name or, for a
    ``train.log``, that of its folder; ``LABEL=FILE`` gives another."""
    curves: dict[str, Curve] = {}
    for given in files:
        label, equals, path = str(given).partition("=")
        if not equals or os.path.exists(given):
            label, path = "", given
        path = Path(path)
        curve, name = _read_log(path)
        if not curve["valid"] and not curve["train"]:
            raise UserError(f"{path}: no learning curve in it: give a log of fairseq-train")
        name = label or name
        if name in curves:
            raise UserError(f"{path}: a second curve called {name}: give a label, LABEL={path}")
        curves[name] = curve
    return curves


def _read_log(path: Path) -> tuple[Curve, str]:
    try:
        curve = read_curve(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: check the path") from None
    except ValueError:
        raise UserError(f"{path}: not a log of fairseq-train, or damaged: give another") from None
    folder = path.resolve().parent
    run = folder.parent if folder.name == "checkpoints" else folder  # as resmlp-mt run has it
    return curve, run.name if path.name == "train.log" else path.stem


@in_style
def draw_curves(curves: dict[str, Curve], title: str | None = None) -> Figure:
    """Validation nll by update; if there is only one training, also its training nll."""
    several = len(curves) > 1
    figure = new_figure(COLUMN, (5.5 + 0.32 * len(curves)) * CM, title)
    axes, names = figure.subplots(), []
    for number, (name, curve) in enumerate(curves.items()):
        if not several and curve["train"]:
            names.append("training")
            axes.plot(*zip(*curve["train"]), color=GREY, linewidth=0.6)
        if several or curve["valid"]:
            points = curve["valid"] or curve["train"]
            names.append(f"{name} ({points[-1][1]:.2f})" if several else "validation")
            (line,) = axes.plot(*zip(*points), **look(number))
            if not curve["valid"]:  # too many points for markers
                line.set_marker("")
        if not several and curve["train"] and curve["valid"]:
            # the training nll of the first updates is far above all others: cut it off
            low = min(nll for points in curve.values() for _, nll in points)
            axes.set_ylim(0.9 * low, 1.3 * max(nll for _, nll in curve["valid"]))
    validation = several and all(curve["valid"] for curve in curves.values())
    axes.set(xlabel="update", ylabel=f"{'validation ' * validation}nll (bits per token)")
    axes.grid(True)
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.xaxis.set_major_formatter("{x:,.0f}")
    heading = "last value in brackets" if several else None
    figure.legend(axes.lines, names, loc="outside lower center", title=heading)
    return figure
