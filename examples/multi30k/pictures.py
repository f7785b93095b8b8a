#!/usr/bin/env python3
"""The study's pictures, from its result files, each as .png and .svg in pictures/:

    python examples/multi30k/pictures.py [--results DIR] [--out DIR]

learning curves of Table 5's systems over CPU time, the ablations, BLEU by sentence length and of
several sentences in one line, and BLEU against the share of weights pruned, as far as there are
results for it.
"""

import argparse
import sys
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from dots import draw_changes
from length_tables import by_length, text_of
from matplotlib.figure import Figure
from plan import TEST
from result_files import load
from run import HERE
from study_tables import SUMMARY, of_table, rows_of

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.files import make_folder
from resmlp_mt.pictures.length import draw_by_length
from resmlp_mt.pictures.make import pruning
from resmlp_mt.pictures.style import (
    CM,
    COLUMN,
    PAGE,
    color,
    dash,
    in_style,
    marker,
    new_figure,
    save,
    set_title,
)

Points = List[Tuple[float, float]]


@in_style
def draw_lines(lines: Dict[str, Points], x: str, y: str, title: str) -> Figure:
    """A line with markers for each label, the legend below."""
    columns = 2 if max(map(len, lines)) <= 20 else 1
    rows = -(-len(lines) // columns)
    figure = new_figure(COLUMN, (6 + 0.32 * rows) * CM)
    axes = figure.subplots()
    for number, (label, points) in enumerate(lines.items()):
        axes.plot(
            *zip(*points),
            color=color(number),
            linestyle=dash(number),
            marker=marker(number),
            label=label,
        )
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
            look = {"color": color(number), "marker": marker(number), "label": label}
            axes.plot(found["words"], scores, linestyle=":" if "," in label else "-", **look)
        axes.set(xlabel="words in a line (mean)", title=f"trained on the {text_of(text)} text")
        axes.grid(True)
    places[0].set_ylabel("sacreBLEU")
    most = max(places, key=lambda axes: len(axes.lines))
    figure.legend(handles=most.lines, loc="outside lower center", ncols=4)
    set_title(figure, "One to four sentences in a line, En-De")
    return figure


def ablations(results: Dict[str, dict]) -> Optional[Figure]:
    """The ablations' nll, BLEU and repetitions, by nll."""
    rows = of_table(results, "ablations")
    repeats = rows_of(results, "repetitions")
    return draw_changes(rows, repeats, "Changes of the paper's model (dotted)") if rows else None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--out", type=Path, default=HERE / "pictures")
    args = parser.parse_args()
    results = load(args.results)
    sweep = args.results / "pruning.json"
    figures: Dict[str, Callable[[], Optional[Figure]]] = {
        "curves.en-de": lambda: learning_curves(results, "en-de"),
        "curves.en-fr": lambda: learning_curves(results, "en-fr"),
        "ablations": lambda: ablations(results),
        "lengths.en-de": lambda: lengths(results, "en-de"),
        "lengths.en-fr": lambda: lengths(results, "en-fr"),
        "long_sentences": lambda: long_sentences(results),
        "pruning": lambda: pruning(sweep, None) if sweep.exists() else None,
    }
    drawn = {name: draw() for name, draw in figures.items()}
    if not any(drawn.values()):
        raise UserError(f"{args.results}: no results to draw: study.py makes them")
    make_folder(args.out)
    for name, figure in drawn.items():
        if figure is None:
            print(f"{name}: no results for it yet")
            continue
        files = [args.out / f"{name}{suffix}" for suffix in (".png", ".svg")]
        save(figure, *files)
        print("\n".join(map(str, files)))


if __name__ == "__main__":
    sys.exit(run_main(main))
