"""Learning curves: of one training with its training loss, or of several to compare."""

import os
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json
from resmlp_mt.pictures.style import (
    CM,
    COLUMN,
    GREY,
    color,
    dash,
    in_style,
    marker,
    new_figure,
    set_title,
)
from resmlp_mt.train.log import read_curve

Points = List[Tuple[int, float]]


def read_curves(files: Sequence[str]) -> Dict[str, Dict[str, Points]]:
    """Learning curves by label.

    Args:
        files: each a log of ``fairseq-train --log-format json``, or a result file (``.json``) with
            a ``valid_curve`` of ``[update, nll]``; ``LABEL=FILE`` names it. Default: the ``label``
            of a result file, the file's or, for a ``train.log``, its folder's name.

    Returns:
        ``{"train": [(update, nll)], "valid": [(update, nll)]}`` by label; nll in bits a token.

    Raises:
        UserError: a file that is not there, cut off, or has no curve; a label given twice.
    """
    curves: Dict[str, Dict[str, Points]] = {}
    for given in files:
        label, path = _split(given)
        found, name = _read_result(path) if path.suffix == ".json" else _read_log(path)
        if not found["valid"] and not found["train"]:
            raise UserError(
                f"{path}: no learning curve in it: give a log of fairseq-train --log-format json, "
                "or a result file with valid_curve"
            )
        label = label or name
        if label in curves:
            raise UserError(f"{path}: a second curve called {label}: give it a label, LABEL={path}")
        curves[label] = found
    return curves


def _split(given: str) -> Tuple[Optional[str], Path]:
    label, equals, path = str(given).partition("=")
    if not equals or os.path.exists(given):
        return None, Path(given)
    return label, Path(path)


def _read_log(path: Path):
    try:
        curve = read_curve(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: give a file that is there") from None
    except (KeyError, ValueError):
        raise UserError(
            f"{path}: not a log of fairseq-train with nll_loss, or damaged: give another"
        ) from None
    folder = path.resolve().parent
    # resmlp_mt's experiments train in a folder "train" of the run's own
    named = folder.parent if folder.name == "train" else folder
    return curve, named.name if path.name == "train.log" else path.stem


def _read_result(path: Path):
    result = read_json(path)
    points = result.get("valid_curve") if isinstance(result, dict) else None
    try:
        valid = [(int(update), float(nll)) for update, nll in points]
    except (TypeError, ValueError):
        raise UserError(
            f"{path}: no valid_curve of [update, nll] in it: give a result file"
        ) from None
    return {"train": [], "valid": valid}, str(result.get("label") or path.stem)


@in_style
def draw_curves(curves: Dict[str, Dict[str, Points]], title: Optional[str] = None) -> Figure:
    """Validation nll by update; the training's too where there is one curve alone.

    Args:
        curves: what :func:`read_curves` gives.
        title: heading of the picture.
    """
    short = len(curves) > 3 and max(map(len, curves)) <= 20
    columns = 2 if short or len(curves) == 1 else 1
    legend_rows = -(-len(curves) // columns) + (len(curves) > 1)
    figure = new_figure(COLUMN, (5.2 + 0.32 * legend_rows + (0.5 if title else 0)) * CM)
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
    figure.legend(
        list(handles.values()),
        list(handles),
        loc="outside lower center",
        ncols=columns,
        title="last value in brackets" if len(curves) > 1 else None,
    )
    set_title(figure, title)
    return figure
