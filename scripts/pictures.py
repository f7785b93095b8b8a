"""The picture of docs/results.md. Its title states the finding."""

from statistics import mean

import curves
import numpy as np
from matplotlib.figure import Figure

from resmlp_mt.plot import CM, in_style

# of a pair, with a contrast of 4.5:1 or more on white; of a size; of little text, and of Adam
COLOURS = {"en-de": "#0B61A4", "en-fr": "#A4500B"}
MARKERS = {"0.6": "o", "1.4": "s", "3.3": "^", "5.6": "D"}
LINES = {"29000-pairs": "dashed", "100000-pairs": "dotted", "Adam": "dashdot"}
POINTS = np.geomspace(700, 64_000, 30)


@in_style
def time_to_the_same_loss(results: dict[str, dict]) -> Figure:
    """How many times as many updates the Transformer needs, by those of ours; bars go from the
    lowest to the highest seed."""
    figure, shown = Figure(figsize=(13 * CM, 9 * CM), layout="constrained"), []
    axes = figure.subplots()
    for group in curves.compared(results):
        found = {at: group.ratios(curves.THEIRS, at) for at in POINTS}
        # where no Transformer got as far, there is no ratio
        exact = {at: [r for r, _ in of] for at, of in found.items() if of and all(r[1] for r in of)}
        if exact:
            means = [mean(of) for of in exact.values()]
            bars = [(m - min(of), max(of) - m) for m, of in zip(means, exact.values())]
            look = {"color": COLOURS.get(group.pair), "marker": MARKERS.get(group.size, "x")}
            look["linestyle"] = LINES.get(group.label, "solid")
            label = curves.setting(group)
            axes.errorbar([*exact], means, np.transpose(bars), label=label, **look)
            shown += means
    low, high = min(shown), max(shown)
    needs = f"needs {low:.1f} to {high:.1f} times the updates"
    figure.suptitle(f"For the same loss fairseq's Transformer {needs}")
    axes.set(xscale="log", ylim=(0, 1.1 * high))
    axes.set(xlabel="updates of ours", ylabel="times the updates")
    axes.axhline(1, color="black", linewidth=0.5)
    axes.minorticks_off()
    ticks = [at for at in curves.AT if axes.get_xlim()[0] <= at <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{at:,}" for at in ticks])
    figure.legend(loc="outside lower center", ncols=2, frameon=False, handlelength=4)
    axes.grid(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
