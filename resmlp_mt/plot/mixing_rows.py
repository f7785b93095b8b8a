"""Rows of the mixing matrices as curves: are they shifted copies of each other?

The curves are drawn over s - t, the distance from the position that is written to the position that
is read. Shifted copies coincide there. Where weights depend on the distance alone all rows are
copies, and a curve is a head.
"""

from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence

import numpy as np
from torch import Tensor

from resmlp_mt.checkpoints.inspection import (
    Layer,
    check_matrices,
    load_ours,
    matrices_of,
    mixing_kind,
)
from resmlp_mt.errors import UserError

MOST_HEADS = 8  # unless more are asked for
# kinds of mixing with weights that depend on the distance alone
BY_DISTANCE = ("toeplitz", "gated", "depthwise-conv")


class Curve(NamedTuple):
    """A label for the legend, the distances s - t, and the weights there."""

    label: str
    x: np.ndarray
    y: np.ndarray


class MixingRows(NamedTuple):
    """
    Attributes:
        panels: curves by side and layer, the same labels in each.
        of: what a curve is, ``"row"`` or ``"head"``.
        heads: the heads for a heading, see :func:`some_heads`.
    """

    panels: Dict[Layer, List[Curve]]
    of: str
    heads: str


def mixing_rows(
    path: Path,
    length: int = 32,
    heads: Optional[Sequence[int]] = None,
    rows: Optional[Sequence[int]] = None,
) -> MixingRows:
    """Several rows of one head, or for weights by distance a curve for each head.

    Args:
        path: a checkpoint of a ``resmlp_mt`` architecture.
        length: T.
        heads: from 1. Default: the first; by distance all, at most 8.
        rows: t of each, from 0. Default: four in between.

    Raises:
        UserError: what :func:`~resmlp_mt.checkpoints.inspection.mixing_matrices` raises; a head or
            row that is not there; *rows* where all are alike; several *heads* where they are not.
    """
    state = load_ours(path)
    check_matrices(state, path)
    matrices = matrices_of(state, length)
    shape = next(iter(matrices.values())).shape
    there_are, length = shape[0], min(matrix.size(1) for matrix in matrices.values())
    if mixing_kind(state) in BY_DISTANCE:
        if rows:
            raise UserError(
                f"--row: {path} has weights by distance: all rows are alike, leave it out"
            )
        heads = choose_heads(there_are, heads)
        panels = {
            key: _distance_curves(matrix, key[0] == "decoder", heads)
            for key, matrix in matrices.items()
        }
        return MixingRows(panels, "head", some_heads(heads, there_are))
    if heads is not None and len(heads) > 1:
        raise UserError("--head: give one: its rows are the curves")
    (head,) = choose_heads(there_are, heads or [1])
    rows = rows or sorted({(i + 1) * length // 5 for i in range(4)})
    for row in rows:
        if not 0 <= row < length:
            raise UserError(f"--row {row}: the matrices drawn have rows 0 to {length - 1}")
    panels = {
        key: _row_curves(matrix[head - 1], key[0] == "decoder", rows)
        for key, matrix in matrices.items()
    }
    return MixingRows(panels, "row", some_heads([head], there_are))


def choose_heads(there_are: int, asked: Optional[Sequence[int]]) -> List[int]:
    """The heads to draw, from 1: those *asked* for, or the first 8.

    Raises:
        UserError: for a head that the model does not have.
    """
    for head in asked or ():
        if not 1 <= head <= there_are:
            raise UserError(f"--head {head}: this model has {there_are}")
    return list(asked or range(1, min(there_are, MOST_HEADS) + 1))


def some_heads(heads: Sequence[int], there_are: int) -> str:
    """``", heads 1 to 8 of 16"``, or nothing if these are all heads."""
    if len(heads) == there_are:
        return ""
    numbers = ", ".join(map(str, heads))
    if len(heads) > 2 and list(heads) == list(range(heads[0], heads[-1] + 1)):
        numbers = f"{heads[0]} to {heads[-1]}"
    return f", head{'s' if len(heads) > 1 else ''} {numbers} of {there_are}"


def _row_curves(matrix: Tensor, causal: bool, rows: Sequence[int]) -> List[Curve]:
    """Some rows t of one head, T x T. With *causal*, position t reads s <= t alone."""
    curves = []
    for t in rows:
        read = np.arange(t + 1 if causal else matrix.size(1))
        curves.append(Curve(f"t = {t}", read - t, matrix[t, : len(read)].numpy()))
    return curves


def _distance_curves(matrix: Tensor, causal: bool, heads: Sequence[int]) -> List[Curve]:
    """The weight by distance of each head, H x T x T, each Toeplitz."""
    length = matrix.size(1)
    last, first = matrix[:, length - 1].numpy(), matrix[:, 0].numpy()
    curves = []
    for head in heads:
        y = last[head - 1] if causal else np.concatenate([last[head - 1], first[head - 1, 1:]])
        curves.append(Curve(f"head {head}", np.arange(len(y)) - (length - 1), y))
    return curves
