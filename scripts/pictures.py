"""The pictures of the pages. A title states the finding, a line carries its name."""

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from resmlp_mt.plot.style import CM, in_style, new_figure, save

# name and colour, each with a contrast of 4.5:1 or more on white
LOOKS = {
    "transformer": ("Transformer", "#333333"),
    "resmlp": ("ResMLP, the paper's A", "#A4500B"),
    "toeplitz, ffn 896": ("ResMLP, Toeplitz A", "#0B61A4"),
}
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


def curves(results: dict[str, dict]) -> Figure:
    """Validation loss by updates, English to German, seed 1."""
    points: dict[str, Points] = {}
    for system in LOOKS:
        kind, _, label = system.partition(", ")
        name = f"en-de/{kind}, bytes{', ' * bool(label)}{label}/1/3000"
        points[system] = results[name]["numbers"]["valid_curve"]
    title = "A Toeplitz A learns fastest, the paper's A slowest"
    return lines(title, "updates", "validation loss, bits per token", points, 2)


PICTURES: dict[str, Callable[[dict[str, dict]], Figure]] = {"curves": curves}


def draw(results: dict[str, dict], folder: Path) -> list[Path]:
    for name, picture in PICTURES.items():
        save(picture(results), folder / f"{name}.png")
    return [folder / f"{name}.png" for name in PICTURES]
