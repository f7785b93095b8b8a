"""Pictures: learning curves and mixing matrices."""

from pathlib import Path
from typing import Dict, List, Tuple

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def save(figure, output: Path) -> None:
    """Write a figure to *output*; its suffix (.png, .svg) says the format."""
    figure.savefig(output, dpi=150, bbox_inches="tight")
    plt.close(figure)


def plot_learning_curve(curves: Dict[str, List[Tuple[int, float]]], output: Path, title: str):
    """Negative log-likelihood by update, for ``train`` and ``valid``.

    Args:
        curves: what :func:`resmlp_mt.pipeline.training.read_curve` returns.
        output: the picture's file.
        title: its heading.
    """
    figure, axes = plt.subplots(figsize=(6.4, 4))
    if curves["train"]:
        axes.plot(*zip(*curves["train"]), color="tab:gray", linewidth=1, label="training")
    if curves["valid"]:
        axes.plot(*zip(*curves["valid"]), "o-", color="tab:blue", markersize=4, label="validation")
    axes.set(xlabel="update", ylabel="nll (bits a token)", title=title)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    save(figure, output)


def plot_matrices(panels: List[Tuple[str, "object"]], output: Path, title: str, columns: int = 2):
    """Mixing matrices side by side: one colour scale, zero white, red positive, blue negative.

    Args:
        panels: (heading, T x T array) for each.
        output: the picture's file.
        title: heading of the whole.
        columns: panels a row.
    """
    rows = -(-len(panels) // columns)
    figure, grid = plt.subplots(
        rows,
        columns,
        figsize=(3.6 * columns + 0.8, 3.5 * rows),
        squeeze=False,
        layout="constrained",
    )
    for axes in grid.flat[len(panels) :]:
        axes.axis("off")
    limit = max(abs(matrix).max() for _, matrix in panels) or 1.0
    for axes, (heading, matrix) in zip(grid.flat, panels):
        image = axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
        axes.set(title=heading, xlabel="read position s", ylabel="written position t")
    figure.colorbar(image, ax=grid, label="weight A[t, s]", shrink=0.8)
    figure.suptitle(title)
    save(figure, output)
