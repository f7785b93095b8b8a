"""The ablations as a picture: a line for each change, a dot for each of what it gave."""

import textwrap
from typing import Dict, List

from matplotlib.figure import Figure
from plan import TEST

from resmlp_mt.pictures.style import CM, PAGE, color, in_style, marker, new_figure, set_title

WIDEST = 40  # letters of a label in one line


def panels_of(row: dict, repeats: Dict[str, dict]) -> Dict[str, Dict[str, float]]:
    """What each panel shows of a row, by its axis: values by their names."""
    bleu = {f"sacreBLEU, {split}": row["scores"][split]["bleu"] for split in ("valid", TEST)}
    nll = "validation nll (bits a token)"
    panels = {nll: {nll: row["valid_nll"]["last"]}, "sacreBLEU": bleu}
    if repeats:
        share = repeats[row["row"]]["repeats"] if row["row"] in repeats else float("nan")
        panels["translations that repeat (%)"] = {"translations": 100 * share}
    return panels


@in_style
def draw_changes(rows: List[dict], repeats: Dict[str, dict], title: str) -> Figure:
    """A panel for each measure, the rows by nll, the best above.

    Args:
        rows: results of runs that differ in one change; the first has none and is marked by lines.
        repeats: rows of repetitions.json by name; none leaves their panel out.
        title: of the picture.
    """
    unchanged = panels_of(rows[0], repeats)
    rows = sorted(rows, key=lambda row: row["valid_nll"]["last"], reverse=True)
    shown = [panels_of(row, repeats) for row in rows]
    labels = [textwrap.fill(row["label"], WIDEST) for row in rows]
    # two neighbours of two lines each need more than a row's height
    height = 0.4 if max(label.count("\n") for label in labels) == 0 else 0.54
    figure = new_figure(PAGE, (2.2 + height * len(rows)) * CM)
    panels = figure.subplots(1, len(unchanged), sharey=True)
    for axes, (axis, values) in zip(panels, unchanged.items()):
        for number, (name, before) in enumerate(values.items()):
            look = {"color": color(number), "marker": marker(number), "linestyle": "none"}
            points = [row[axis][name] for row in shown]
            axes.plot(points, range(len(rows)), label=name, clip_on=False, **look)
            axes.axvline(before, color=color(number), linewidth=0.5, linestyle=":")
        axes.set_xlabel(axis)
        axes.grid(True, axis="both")
        if len(values) > 1:
            dots = [line for line in axes.lines if line.get_label() in values]
            figure.legend(handles=dots, loc="outside lower center", ncols=len(dots))
    panels[0].set_yticks(range(len(rows)), labels)
    set_title(figure, title)
    return figure
