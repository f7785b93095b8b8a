"""Pictures of speed and of memory by length, from the files in results/."""

import re
from pathlib import Path
from typing import Dict, List, NamedTuple

from speed_tables import OURS, RESULTS, THEIRS, lines

from resmlp_mt.benchmark.timing import Spread, spread
from resmlp_mt.files import read_json
from resmlp_mt.plot import style


class Panel(NamedTuple):
    """The heading, the titles of the axes with units, and the points ``(x, Spread)`` by model."""

    title: str
    x: str
    y: str
    lines: Dict[str, list]


def decoding() -> List[Panel]:
    """Time for a token of output, all sentences of the batch together, by target length."""
    measured = [line for words in (25, 100, 200) for line in lines(f"decode-{words}")]
    points: Dict[str, list] = {OURS: [], THEIRS: []}
    for line in measured:
        for name, some in points.items():
            found = line["columns"][name]
            milliseconds = spread(found["seconds"]).scaled(1000 / found["output_tokens"])
            some.append((line["target_words"], milliseconds))
    setting = f"{measured[0]['source_tokens']} source tokens, beam {measured[0]['beam']}"
    title = f"Time for a decoded token by target length\n({setting})"
    return [Panel(title, "target words", "time for a token (ms)", points)]


def memory() -> List[Panel]:
    """Activations of a training step, and what decoding remembers."""
    found = read_json(RESULTS / "memory.json")
    kinds = {
        "training": ("training: activations", "saved"),
        "decoding": ("decoding: what is remembered", "held"),
    }
    panels = []
    for part, (title, kind) in kinds.items():
        points = {}
        for name in found[part][0]["columns"]:
            measured = [(line["length"], line["columns"][name][kind] / 1e6) for line in found[part]]
            points[name] = [(length, Spread(mb, mb, mb)) for length, mb in measured]
        panels.append(Panel(title, "length (words)", "memory (MB)", points))
    return panels


# how the names of architectures begin, fairseq's and ours
ARCHITECTURES = {
    "resmlp_mt_toeplitz_": "ResMLP, Toeplitz, ",
    "resmlp_mt_conv_": "ResMLP, convolutions, ",
    "resmlp_mt_gated_": "ResMLP, gated, ",
    "resmlp_mt_": "ResMLP, ",
    "transformer_": "Transformer, ",
    "transformer": "Transformer",
}


def in_words(label: str) -> str:
    """The name of an architecture as the name of a system and a size: ``ResMLP, 6 + 6 int8``."""
    for start, name in ARCHITECTURES.items():
        if label.startswith(start):
            return name + re.sub(r"^(\d+)\b", r"\1 + \1", label.removeprefix(start))
    return label


@style.in_style
def draw_panels(panels: List[Panel]):
    """Panels below each other, the same models in each. A band is from lowest to highest repeat."""
    figure = style.new_figure(style.COLUMN, 5 * len(panels) * style.CM)
    places = figure.subplots(len(panels), 1, squeeze=False)[:, 0]
    for axes, panel in zip(places, panels):
        named = {in_words(name): points for name, points in panel.lines.items()}
        for name, look in style.looks(named).items():
            points = named[name]
            lengths = [x for x, _ in points]
            axes.plot(lengths, [y.median for _, y in points], label=name, **look)
            low, high = [y.low for _, y in points], [y.high for _, y in points]
            band = {"color": look["color"], "alpha": 0.2, "linewidth": 0}
            axes.fill_between(lengths, low, high, **band)
        axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.grid(True)
    style.legend_below(figure, *places[0].get_legend_handles_labels(), 2)
    return figure


def draw(folder: Path) -> List[Path]:
    """Draw all pictures; gives the files."""
    files = []
    for name, panels in (("decoding", decoding()), ("memory", memory())):
        files.append(folder / f"{name}.png")
        style.save(draw_panels(panels), files[-1])
    return files
