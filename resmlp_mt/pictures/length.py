"""BLEU by sentence length as a picture."""

from pathlib import Path
from typing import Dict, List

from matplotlib import pyplot as plt

from resmlp_mt.pictures.style import marker, save_for_screen
from resmlp_mt.pipeline.by_length import words_label


def plot_by_length(systems: Dict[str, List[dict]], output: Path, side: str) -> None:
    """A line for each system.

    Args:
        systems: what :func:`resmlp_mt.pipeline.by_length.bleu_by_length` returns, by system, of the
            same sentences and edges.
        output: the picture's file, .png or .svg.
        side: whose words count, ``"source"`` or ``"reference"``.
    """
    buckets = next(iter(systems.values()))
    figure, axes = plt.subplots(figsize=(1.5 + 0.9 * len(buckets), 4.2))
    places = range(len(buckets))
    for number, (name, rows) in enumerate(systems.items()):
        heights = [float("nan") if row["bleu"] is None else row["bleu"] for row in rows]
        axes.plot(places, heights, marker=marker(number), label=name)
    axes.set_xticks(
        places, [f"{words_label(row)}\n{row['sentences']:,}" for row in buckets], fontsize="small"
    )
    axes.set(
        xlabel=f"words of the {side}, and how many sentences have so many",
        ylabel="sacreBLEU (0 to 100)",
        title="BLEU by sentence length",
    )
    axes.set_ylim(bottom=0)
    axes.margins(y=0.15)
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    save_for_screen(figure, output)
