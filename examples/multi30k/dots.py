"""The ablations as a picture: a line for each change, a dot for each of what it gave."""

import textwrap
from typing import Dict, List, Tuple

from matplotlib.figure import Figure
from study_tables import TEST

from resmlp_mt.pictures.style import CM, PAGE, color, in_style, marker, new_figure, set_title

WIDEST = 40  # letters of a label in one line


def measures(row: dict, repeats: Dict[str, dict]) -> List[List[Tuple[str, float]]]:
    """What each panel shows of a row: names with values."""
    scores = row["scores"]
    shown = [
        [("validation nll (bits a token)", row["valid_nll"]["last"])],
        [(f"sacreBLEU, {split}", scores[split]["bleu"]) for split in ("valid", TEST)],
    ]
    if repeats:
        share = repeats[row["row"]]["repeats"] if row["row"] in repeats else float("nan")
        shown.append([("translations that repeat (%)", 100 * share)])
    return shown


@in_style
def draw_changes(rows: List[dict], repeats: Dict[str, dict], title: str) -> Figure:
    """Args:
    rows: results of runs that differ in one change; the first has none and is marked by a line.
    repeats: rows of repetitions.json by name; none leaves their panel out.
    title: of the picture.
    """
    first, *_ = rows
    rows = sorted(rows, key=lambda row: row["valid_nll"]["last"], reverse=True)
    figure = new_figure(PAGE, (2.2 + 0.4 * len(rows)) * CM)
    panels = figure.subplots(1, len(measures(first, repeats)), sharey=True)
    for number, axes in enumerate(panels):
        for series, (name, unchanged) in enumerate(measures(first, repeats)[number]):
            values = [measures(row, repeats)[number][series][1] for row in rows]
            look = {"color": color(series), "marker": marker(series), "linestyle": "none"}
            axes.plot(values, range(len(rows)), label=name, clip_on=False, **look)
            axes.axvline(unchanged, color=color(series), linewidth=0.5, linestyle=":")
        names = [name for name, _ in measures(first, repeats)[number]]
        axes.set_xlabel(names[0] if len(names) == 1 else names[0].split(",")[0])
        axes.grid(True, axis="both")
        if len(names) > 1:
            axes.legend(loc="upper left")
    labels = [textwrap.fill(row["label"], WIDEST) for row in rows]
    panels[0].set_yticks(range(len(rows)), labels)
    set_title(figure, title)
    return figure
