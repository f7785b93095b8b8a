"""The pictures of the study, from its result files. Each is as wide as a printed column, 8 cm."""

import textwrap
from pathlib import Path
from statistics import mean
from typing import Callable, Dict, List, Optional, Tuple

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from resmlp_mt.errors import UserError
from resmlp_mt.files import make_folder
from resmlp_mt.plot.style import (
    CM,
    COLUMN,
    GREY,
    SMALL,
    SYSTEMS,
    in_style,
    legend_below,
    looks,
    new_figure,
    save,
)
from study.length import draw_by_length
from study.plan import NAMES, TEST
from study.tables import MAIN, PAIRS, by_length, of_system, of_table, rows_of, system_name, text_of

BASELINE = "Transformer"
WIDEST = 30  # letters of a label in one line
LOWEST = -6  # BLEU: a change that costs more is written beside its arrow
Points = List[Tuple[float, float]]


def direction(pair: str) -> str:
    return f"English to {PAIRS[pair]}"


@in_style
def draw_lines(lines: Dict[str, Points], x: str, y: str, title: str) -> Figure:
    """A line with markers for each label, the legend below."""
    rows = -(-len(lines) // 2)
    figure = new_figure(COLUMN, (6 + 0.32 * rows) * CM, title)
    axes = figure.subplots()
    for label, look in looks(lines).items():
        axes.plot(*zip(*lines[label]), label=label, **look)
    axes.set(xlabel=x, ylabel=y)
    axes.grid(True)
    legend_below(figure, *axes.get_legend_handles_labels(), 2)
    return figure


def learning_curves(results: Dict[str, dict], pair: str) -> Optional[Figure]:
    """Validation nll after each epoch, by the CPU minutes that training had taken."""
    lines = {}
    for system in NAMES:
        for r in of_system(results, system, pair.removeprefix("en-"))[:1]:
            minutes = r["cost"]["cpu_minutes"] / r["recipe"]["updates"]
            points = [(update * minutes, nll) for update, nll in r["valid_curve"]]
            lines[system_name(system)] = points
    if not lines:
        return None
    title = f"{direction(pair)}, 128 channels, one core each"
    return draw_lines(lines, "CPU minutes", "validation nll (bits a token)", title)


def lengths(results: Dict[str, dict], pair: str) -> Optional[Figure]:
    """BLEU by sentence length of the main systems, mean over seeds, from the Transformer's."""
    systems = {system_name(k): v for k, v in by_length(results, pair).items() if k in MAIN}
    if BASELINE not in systems:
        return None
    words_of = results["lengths"]["words_of"]
    return draw_by_length(systems, words_of, f"{direction(pair)}, {TEST}", BASELINE)


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
            label = system_name(system) + (", A extended" if how != "as it is" else "")
            panels.setdefault(text, {})[label] = scores
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    styles = looks(labels)
    figure = new_figure(COLUMN, (4 * len(panels) + 1.5) * CM, "One to four sentences in a line")
    places = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (text, lines) in zip(places, panels.items()):
        for label, scores in lines.items():
            axes.plot(found["words"], scores, label=label, **styles[label])
        axes.set(ylabel="sacreBLEU", title=f"trained on the {text_of(text)} text")
        axes.set_ylim(bottom=0)
        axes.grid(True)
    places[-1].set_xlabel("words in a line (mean)")
    most = max(places, key=lambda axes: len(axes.lines))
    legend_below(figure, *most.get_legend_handles_labels(), 2)
    return figure


# the systems that a change of the paper's model makes of it
_CHANGED = {"Toeplitz": "ResMLP, Toeplitz", "onvolution of": "ResMLP, convolutions"}


@in_style
def draw_changes(rows: List[dict], title: str) -> Figure:
    """BLEU of models that differ in one change from the first of *rows*, as the difference from it.

    A change below :data:`LOWEST` is an arrow at the edge with its value.
    """
    before = rows[0]["scores"][TEST]["bleu"]
    changes = {row["label"]: row["scores"][TEST]["bleu"] - before for row in rows[1:]}
    changes = dict(sorted(changes.items(), key=lambda item: item[1]))
    labels = [textwrap.fill(label, WIDEST) for label in changes]
    rows_of_text = [1.4 + 0.8 * label.count("\n") for label in labels]
    places = [sum(rows_of_text[:i]) + rows_of_text[i] / 2 for i in range(len(labels))]
    figure = new_figure(COLUMN, (1.4 + 0.29 * sum(rows_of_text)) * CM, title)
    axes = figure.subplots()
    for place, (label, change) in zip(places, changes.items()):
        system = next((name for part, name in _CHANGED.items() if part in label), "ResMLP")
        color, marker = SYSTEMS[system]
        shown = max(change, LOWEST)
        axes.plot([0, shown], [place, place], color=color, linewidth=0.8)
        axes.plot([shown], [place], color=color, marker="<" if shown > change else marker)
        if shown > change:
            patch = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
            value = {"fontsize": SMALL, "color": color, "va": "center", "bbox": patch}
            axes.text(shown + 0.4, place, f"{change:+.1f}", **value)
    axes.axvline(0, color=GREY, linewidth=0.8)
    axes.set_xlim(left=LOWEST - 0.3)
    axes.set_ylim(0, sum(rows_of_text))
    axes.set_yticks(places, labels)
    axes.set_xlabel("difference in sacreBLEU")
    axes.grid(True, axis="x")
    return figure


def ablations(results: Dict[str, dict]) -> Optional[Figure]:
    """What each change of the model of the paper does to its BLEU."""
    rows = of_table(results, "ablations")
    return draw_changes(rows, "Changes of the model of the paper") if rows else None


PRUNED = {"A": "A (positions)", "B": "B (fc1)", "C": "C (fc2)", "all": "A, B and C"}


@in_style
def pruning(results: Dict[str, dict]) -> Optional[Figure]:
    """BLEU against the share of weights removed: a line for each of A, B, C and all."""
    points = list(rows_of(results, "pruning").values())
    if not points:
        return None
    figure = new_figure(COLUMN, 6 * CM, "Pruned without retraining")
    axes = figure.subplots()
    (whole,) = (point for point in points if point["which"] == "none")
    for kind, look in looks(PRUNED).items():
        own = [whole, *(point for point in points if point["which"] == kind)]
        own.sort(key=lambda point: point["removed"])
        removed, bleu = zip(*((100 * point["removed"], point["bleu"]) for point in own))
        axes.plot(removed, bleu, label=PRUNED[kind], clip_on=False, **look)
    line = {"color": GREY, "linewidth": 0.6, "linestyle": ":"}
    axes.axhline(whole["bleu"], label="not pruned", **line)
    axes.set(xlabel="weights removed from these matrices", ylabel="sacreBLEU")
    axes.xaxis.set_major_formatter(PercentFormatter(decimals=0))
    axes.set_ylim(bottom=0)
    axes.grid(True)
    legend_below(figure, *axes.get_legend_handles_labels(), 3)
    return figure


@in_style
def quality_and_speed(results: Dict[str, dict]) -> Optional[Figure]:
    """BLEU beside decoding speed, English to German: a dot for each system and seed."""
    speeds = rows_of(results, "speed")
    if not speeds:
        return None
    figure = new_figure(COLUMN, 5.5 * CM, "Multi30k, English to German")
    axes = figure.subplots()
    names = {system_name(label): label for label in MAIN if label in speeds}
    for name, look in looks(names).items():
        label = names[name]
        bleu = [r["scores"][TEST]["bleu"] for r in of_system(results, label, "de")]
        x = speeds[label]["relative"]["median"]
        axes.plot([x] * len(bleu), bleu, **{**look, "markersize": 5})
        right = name == BASELINE
        axes.annotate(
            name,
            (x, mean(bleu)),
            xytext=(6 if right else -6, 0),
            textcoords="offset points",
            ha="left" if right else "right",
            va="center",
            color=look["color"],
        )
    axes.set(xlabel="decoding speed, times that of the Transformer", ylabel="sacreBLEU")
    axes.grid(True, axis="both")
    axes.margins(0.12)
    return figure


@in_style
def result_chart(results: Dict[str, dict]) -> Optional[Figure]:
    """What each main system gains on the Transformer of its pair and seed, a dot a seed."""
    compared = rows_of(results, "compare")
    if not compared:
        return None
    systems = [label for label in MAIN if system_name(label) != BASELINE]
    names = {system_name(label): label for label in systems}
    figure = new_figure(COLUMN, 5 * CM, "Multi30k, equal CPU minutes")
    axes = figure.subplots()
    places: List[float] = []
    for pair in PAIRS:
        for name, look in looks(names).items():
            runs = of_system(results, names[name], pair.removeprefix("en-"))
            tests = [compared[r["row"]]["bleu"] for r in runs]
            gains = [test["system"] - test["baseline"] for test in tests]
            place = -len(places) - 0.6 * (len(places) // len(names))
            axes.plot(gains, [place] * len(gains), **{**look, "markersize": 5})
            places.append(place)
        axes.text(0.06, places[-len(names)] + 0.5, direction(pair), fontsize=SMALL, color=GREY)
    axes.axvline(0, color=SYSTEMS[BASELINE][0], linewidth=1)
    axes.set_yticks(places, [*names] * len(PAIRS))
    axes.set_xlabel("sacreBLEU, difference from the Transformer")
    axes.set_ylim(places[-1] - 0.5, places[0] + 1.1)
    axes.grid(True, axis="x")
    return figure


# by the names of their files
PICTURES: Dict[str, Callable[[Dict[str, dict]], Optional[Figure]]] = {
    "quality_and_speed": quality_and_speed,
    "results": result_chart,
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
    files = {folder / f"{name}.png": figure for name, figure in drawn.items() if figure}
    for file, figure in files.items():
        save(figure, file)
    return list(files)
