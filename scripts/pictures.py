"""The picture of docs/results.md. Its title states the finding."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from resmlp_mt.plot.style import CM, in_style, new_figure, save

# of a line: its name, and a colour with a contrast of 4.5:1 or more on white
LOOKS = {
    "lead/en-de/toeplitz, hold/1": ("Toeplitz A, En-De", "#0B61A4"),
    "lead/en-fr/toeplitz, hold/1": ("Toeplitz A, En-Fr", "#A4500B"),
}


@in_style
def lead(results: dict[str, dict]) -> Figure:
    """The lead over the Transformer in training loss, with standard errors, and its power law."""
    title = "The lead over the Transformer in training loss shrinks with the updates"
    figure = new_figure(13 * CM, 7 * CM, title)
    axes = figure.subplots()
    for name, (label, color) in LOOKS.items():
        numbers = results[name]["numbers"]
        updates, _, _, bits, errors = np.array(numbers["points"]).T
        axes.errorbar(updates, bits, errors, color=color, fmt="o", label=label)
        if "exponent" in numbers:
            end, then = 10 * numbers["updates"], numbers["after ten times as many"]
            ahead = np.geomspace(updates[0], end)
            fitted = then * (ahead / end) ** numbers["exponent"]
            axes.plot(ahead, fitted, color=color, linestyle="--")
    axes.set(xscale="log", yscale="log", xlabel="updates", ylabel="bits per token")
    axes.minorticks_off()
    axes.set_xticks((1000, 3000, 10000), ("1,000", "3,000", "10,000"))
    axes.set_yticks((0.1, 0.2, 0.4), ("0.1", "0.2", "0.4"))
    axes.legend(frameon=False)
    axes.grid(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw(results: dict[str, dict], folder: Path) -> None:
    save(lead(results), folder / "lead.png")
