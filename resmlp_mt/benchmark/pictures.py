"""Lines over length, one for each model."""

from pathlib import Path
from typing import List

from matplotlib import pyplot as plt

from resmlp_mt.benchmark.report import Chart
from resmlp_mt.pictures.style import marker, save_for_screen


def draw(charts: List[Chart], output: Path) -> None:
    """Panels side by side; a band shows the lowest and the highest repeat.

    Args:
        charts: the panels, the same models in each.
        output: the picture's file.
    """
    width = 6.4 * len(charts)
    figure, panels = plt.subplots(
        1, len(charts), figsize=(width, 4.2), squeeze=False, layout="constrained"
    )
    for axes, chart in zip(panels.flat, charts):
        for number, (name, points) in enumerate(chart.lines.items()):
            lengths = [x for x, _ in points]
            color = f"C{number % 10}"
            middle = [y.median for _, y in points]
            axes.plot(lengths, middle, marker=marker(number), color=color, linewidth=2, label=name)
            low, high = [y.low for _, y in points], [y.high for _, y in points]
            axes.fill_between(lengths, low, high, color=color, alpha=0.2, linewidth=0)
        axes.set(title=chart.title, xlabel=chart.x, ylabel=chart.y)
        top = max(y.high for points in chart.lines.values() for _, y in points)
        axes.set_ylim(0, 1.3 * top)  # room for the legend above the lines
        axes.set_xlim(left=0)
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left", ncols=2)
    save_for_screen(figure, output)
