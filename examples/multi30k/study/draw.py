"""The study's pictures, from its result files: each as .png and .svg."""

import textwrap
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from matplotlib.figure import Figure

from resmlp_mt.errors import UserError
from resmlp_mt.files import make_folder
from resmlp_mt.pictures.length import draw_by_length
from resmlp_mt.pictures.pruning import draw_pruning
from resmlp_mt.pictures.style import (
    CM,
    COLUMN,
    PAGE,
    color,
    in_style,
    look,
    new_figure,
    save,
    set_title,
)
from study.plan import TEST
from study.tables import SUMMARY, by_length, of_system, of_table, rows_of, text_of

WIDEST = 40  # letters of a label in one line
Points = List[Tuple[float, float]]


@in_style
def draw_lines(lines: Dict[str, Points], x: str, y: str, title: str) -> Figure:
    """A line with markers for each label, the legend below."""
    columns = 2 if max(map(len, lines)) <= 20 else 1
    rows = -(-len(lines) // columns)
    figure = new_figure(COLUMN, (6 + 0.32 * rows) * CM)
    axes = figure.subplots()
    for number, (label, points) in enumerate(lines.items()):
        axes.plot(*zip(*points), label=label, **look(number))
    axes.set(xlabel=x, ylabel=y)
    axes.grid(True)
    figure.legend(loc="outside lower center", ncols=columns)
    set_title(figure, title)
    return figure


def learning_curves(results: Dict[str, dict], pair: str) -> Optional[Figure]:
    """Validation nll after each epoch, by the CPU minutes that training had taken."""
    lines = {}
    for r in of_table(results, "table5"):
        if f"en-{r['recipe']['target']}" == pair and r["recipe"]["seed"] == 1:
            minutes = r["cost"]["cpu_minutes"] / r["recipe"]["updates"]
            lines[r["label"]] = [(update * minutes, nll) for update, nll in r["valid_curve"]]
    if not lines:
        return None
    title = f"{pair}, 128 channels, one core each"
    return draw_lines(lines, "CPU minutes", "validation nll (bits a token)", title)


def lengths(results: Dict[str, dict], pair: str) -> Optional[Figure]:
    """BLEU by sentence length of Table 5's main systems, the mean over their seeds."""
    systems = {k: v for k, v in by_length(results, pair).items() if k in SUMMARY}
    if not systems:
        return None
    return draw_by_length(systems, results["lengths"]["words_of"], f"{pair}, {TEST}")


@in_style
def long_sentences(results: Dict[str, dict]) -> Optional[Figure]:
    """BLEU by the words of a line, which is one to four sentences: a panel a training text."""
    found = results.get("long_sentences")
    if found is None:
        return None
    panels: Dict[str, Dict[str, List[float]]] = {}
    for run, row in found["rows"].items():
        text, _, system, _ = run.split(".")
        for how, scores in row.items():
            label = system if how == "as it is" else f"{system}, A extended"
            panels.setdefault(text, {})[label] = scores
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    figure = new_figure(PAGE if len(panels) > 1 else COLUMN, 6.5 * CM)
    places = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (text, lines) in zip(places, panels.items()):
        for label, scores in lines.items():
            number = labels.index(label)
            dash = {"linestyle": ":" if "," in label else "-"}
            axes.plot(found["words"], scores, label=label, **{**look(number), **dash})
        axes.set(xlabel="words in a line (mean)", title=f"trained on the {text_of(text)} text")
        axes.grid(True)
    places[0].set_ylabel("sacreBLEU")
    most = max(places, key=lambda axes: len(axes.lines))
    figure.legend(handles=most.lines, loc="outside lower center", ncols=4)
    set_title(figure, "One to four sentences in a line, En-De")
    return figure


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
            dots = {**look(number), "linestyle": "none"}
            points = [row[axis][name] for row in shown]
            axes.plot(points, range(len(rows)), label=name, clip_on=False, **dots)
            axes.axvline(before, color=color(number), linewidth=0.5, linestyle=":")
        axes.set_xlabel(axis)
        axes.grid(True, axis="both")
        if len(values) > 1:
            dots = [line for line in axes.lines if line.get_label() in values]
            figure.legend(handles=dots, loc="outside lower center", ncols=len(dots))
    panels[0].set_yticks(range(len(rows)), labels)
    set_title(figure, title)
    return figure


def ablations(results: Dict[str, dict]) -> Optional[Figure]:
    """The ablations' nll, BLEU and repetitions, by nll."""
    rows = of_table(results, "ablations")
    repeats = rows_of(results, "repetitions")
    return draw_changes(rows, repeats, "Changes of the paper's model (dotted)") if rows else None


def pruning(results: Dict[str, dict]) -> Optional[Figure]:
    """BLEU against the share of weights removed."""
    found = results.get("pruning")
    return draw_pruning(found, "Pruned without retraining") if found else None


# the systems of the picture that shows quality beside speed, in words
NAMES = {
    "transformer-3": "Transformer",
    "resmlp-3": "ResMLP, matrices of the paper",
    "toeplitz-3": "ResMLP, Toeplitz",
    "conv-3": "ResMLP, convolutions",
}


@in_style
def quality_and_speed(results: Dict[str, dict]) -> Optional[Figure]:
    """BLEU beside decoding speed, a point a system, a panel a language pair."""
    speeds = rows_of(results, "speed")
    if not speeds:
        return None
    figure = new_figure(PAGE, 6.5 * CM)
    places = figure.subplots(1, 2)
    for axes, (target, title) in zip(places, (("de", "English to German"), ("fr", "to French"))):
        for number, (system, name) in enumerate(NAMES.items()):
            bleu = [r["scores"][TEST]["bleu"] for r in of_system(results, system, target)]
            axes.plot(
                [speeds[system]["relative"]["median"]] * len(bleu),
                bleu,
                **{**look(number), "linestyle": "-", "markersize": 6},
                label=name,
            )
        axes.set(title=title, xlabel="decoding speed, times that of the Transformer")
        axes.grid(True, axis="both")
        axes.margins(0.15)
    places[0].set_ylabel("sacreBLEU, one point a seed")
    figure.legend(handles=places[0].lines, loc="outside lower center", ncols=4)
    set_title(figure, "Multi30k, 15 minutes of one CPU core for each system")
    return figure


# by the names of their files
PICTURES: Dict[str, Callable[[Dict[str, dict]], Optional[Figure]]] = {
    "quality_and_speed": quality_and_speed,
    "curves.en-de": lambda results: learning_curves(results, "en-de"),
    "curves.en-fr": lambda results: learning_curves(results, "en-fr"),
    "ablations": ablations,
    "lengths.en-de": lambda results: lengths(results, "en-de"),
    "lengths.en-fr": lambda results: lengths(results, "en-fr"),
    "long_sentences": long_sentences,
    "pruning": pruning,
}


def draw(results: Dict[str, dict], folder: Path) -> List[Path]:
    """Draw what there are results for; gives the files.

    Raises:
        UserError: if there are none.
    """
    drawn = {name: make(results) for name, make in PICTURES.items()}
    if not any(drawn.values()):
        raise UserError("no results to draw: python -m study run makes them")
    make_folder(folder)
    files = []
    for name, figure in drawn.items():
        if figure is not None:
            files += [folder / f"{name}{suffix}" for suffix in (".png", ".svg")]
            save(figure, *files[-2:])
    return files
