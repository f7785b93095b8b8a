"""The pictures of the pages. A title states the finding, a line carries its name."""

from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import mean

from matplotlib.figure import Figure

from resmlp_mt.plot.style import CM, in_style, new_figure, save

# name and colour, each with a contrast of 4.5:1 or more on white
LOOKS = {"transformer": ("Transformer", "#333333"), "gated": ("ResMLP, gated", "#0B61A4")}
LOOKS["resmlp_mt_6"] = ("ResMLP", LOOKS["gated"][1])
WIDTH, HEIGHT = 11 * CM, 6 * CM
Points = list[tuple[float, float]]


@in_style
def lines(title: str, x: str, y: str, points: dict[str, Points], bottom: float = 0) -> Figure:
    """Lines with their names at the right end."""
    figure = new_figure(WIDTH, HEIGHT, title)
    axes = figure.subplots()
    for name, line in points.items():
        label, color = LOOKS[name]
        axes.plot(*zip(*line), color=color, marker="o", clip_on=False)
        end = line[-1]
        shift = {"xytext": (5, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(label, end, color=color, fontweight="bold", annotation_clip=False, **shift)
    axes.set(xlabel=x, ylabel=y)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=bottom)
    axes.grid(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


BOTH = ("transformer", "gated")
# the longest trainings
LONGEST = {"en-de": "bytes, dropout=0.05/1/16000", "en-fr": "bytes/1/6000"}


def long_trainings(results: dict[str, dict], pair: str, systems: Iterable[str]) -> dict[str, dict]:
    """By system."""
    return {name: results[f"{pair}/{name}, {LONGEST[pair]}"]["numbers"] for name in systems}


def curves(results: dict[str, dict]) -> Figure:
    """Validation loss by updates, mean of both pairs and seeds."""
    points: dict[str, Points] = {}
    for system in BOTH:
        some = [r["numbers"] for r in results.values() if r["numbers"].get("updates") == 3000]
        losses = [dict(n["valid_curve"]) for n in some if n["system"] == f"{system}, bytes"]
        updates = sorted(set.intersection(*map(set, losses)))
        points[system] = [(update, mean(of[update] for of in losses)) for update in updates]
    title = "The gated model learns faster than the Transformer"
    y = "validation loss, bits a subword"
    return lines(title, "updates, Muon, mean of two pairs and two seeds", y, points, 2)


def lengths(results: dict[str, dict]) -> Figure:
    """BLEU by the words of the source after the longest trainings."""
    points: dict[str, Points] = {}
    for system, n in long_trainings(results, "en-de", BOTH).items():
        buckets = n["by_length"]
        # the last bucket has no end
        middles = [(b["from"] + (b["to"] or b["from"] + 10)) / 2 for b in buckets]
        points[system] = list(zip(middles, (bucket["bleu"] for bucket in buckets)))
    title = "The lead holds at every sentence length"
    return lines(title, "words of the source sentence", "BLEU, all test sets", points, 10)


def decoding(results: dict[str, dict]) -> Figure:
    """Time of a step by the length of the translation."""
    points: dict[str, Points] = {"transformer": [], "resmlp_mt_6": []}
    for words in (25, 100, 200):
        (line,) = results[f"speed/amd/decode/64x4/{words}"]["numbers"]["decode"]
        for name, some in points.items():
            some.append((words, line["columns"][name]["ms_a_step"]["median"]))
    title = "A ResMLP's decoding step hardly slows down in long sentences"
    y = "ms a step, 64 x 4 hypotheses, AMD EPYC"
    return lines(title, "words of the translation", y, points)


PICTURES: dict[str, Callable[[dict[str, dict]], Figure]] = {
    "curves": curves,
    "lengths": lengths,
    "decoding": decoding,
}


def draw(results: dict[str, dict], folder: Path) -> list[Path]:
    paths = [folder / f"{name}.png" for name in PICTURES]
    for path, picture in zip(paths, PICTURES.values()):
        save(picture(results), path)
    return paths
