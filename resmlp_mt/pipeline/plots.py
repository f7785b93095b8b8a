"""Pictures of what is in memory already, drawn by :mod:`resmlp_mt.pictures`."""

from pathlib import Path
from typing import Dict, List, Tuple

import numpy as np
from matplotlib import pyplot as plt

from resmlp_mt.pictures import style
from resmlp_mt.pictures.curves import draw_curves
from resmlp_mt.pictures.matrices import Panel, draw_matrices


def save(figure, output: Path) -> None:
    """Write a figure that is laid out for a screen; the suffix (.png, .svg) says the format."""
    style.check_outputs([output])
    content = style.rendered(figure, output, dpi=150, bbox_inches="tight")
    plt.close(figure)
    style.write([output], [content])


def plot_learning_curve(curves: Dict[str, List[Tuple[int, float]]], output: Path, title: str):
    """Negative log-likelihood by update, for ``train`` and ``valid``.

    Args:
        curves: what :func:`resmlp_mt.pipeline.training.read_curve` returns.
        output: the picture's file.
        title: its heading.
    """
    style.save(draw_curves({title: curves}, title), output)


def plot_matrices(
    panels: List[Tuple[str, np.ndarray]], output: Path, title: str, columns: int = 2
) -> None:
    """Mixing matrices side by side: zero white, red positive, blue negative.

    Args:
        panels: (heading, T x T array) for each; the heading's line is broken at its last
            comma.
        output: the picture's file.
        title: heading of the whole.
        columns: panels a row.
    """
    rows = [
        [
            Panel(matrix, not np.triu(matrix, 1).any(), "\n".join(heading.rsplit(", ", 1)))
            for heading, matrix in panels[start : start + columns]
        ]
        for start in range(0, len(panels), columns)
    ]
    style.save(draw_matrices(rows, title), output)
