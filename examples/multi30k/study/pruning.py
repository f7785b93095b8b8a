"""The sparsity of the paper: weights that are small beside the largest one of their matrix.

Its section 3 counts, layer by layer, the weights below 5% of the maximum of their matrix: A has
more of them than B and C. Here they are counted, and set to zero without training again.

Each head has an A of its own. Only the weights of A that training reached are counted: those that
sentences of T tokens use. They are the top left T x T of A, in the decoder its triangle. The others
are hardly changed from their initial values. With ``--token-mixing toeplitz`` and ``gated`` the
weights are those by distance.
"""

from pathlib import Path
from typing import Dict, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from resmlp_mt.checkpoints.inspection import (
    PARAMETERS,
    SIDES,
    Layer,
    check_matrices,
    check_not_folded,
    load_ours,
    mixing_kind,
    parameter_names,
    positions,
    rebuild_mixing,
)
from resmlp_mt.checkpoints.loading import save_checkpoint
from resmlp_mt.errors import UserError
from resmlp_mt.files import check_output

KINDS = tuple(PARAMETERS)
PAPERS_THRESHOLD = 0.05


class Count(NamedTuple):
    """*small* of *total* weights are below the threshold."""

    small: int
    total: int

    @property
    def share(self) -> float:
        return self.small / self.total

    def __add__(self, other: "Count") -> "Count":
        return Count(self.small + other.small, self.total + other.total)


class Sparsity(NamedTuple):
    """
    Attributes:
        counts: by ``A``, ``B``, ``C`` and layer; without ``A`` for a ``--token-mixing`` that has no
            mixing matrices.
        threshold: share of the largest weight of a matrix below which weights are counted.
        weights_of_a: which of the weights of A were counted, in words.
        triangle: whether these are, in the decoder, the lower triangle of a matrix.
    """

    counts: Dict[str, Dict[Layer, Count]]
    threshold: float
    weights_of_a: str
    triangle: bool


def check_threshold(threshold: float) -> None:
    """
    Raises:
        UserError: if it is not between 0 and 1.
    """
    if not 0 <= threshold <= 1:
        raise UserError(
            f"threshold {threshold:g}: give a share of the largest weight of a matrix, from 0 to 1"
        )


def used_weights(state: dict, kind: str, side: str, weight: Tensor, length: int):
    """A mask of the weights that sentences of *length* tokens use, in the shape of *weight*."""
    if kind != "A":
        return torch.ones_like(weight, dtype=torch.bool)
    mixing = rebuild_mixing(state, side, weight.float())
    # for every kind of mixing: a weight is used if the sum of the entries of A depends on it
    mixing.matrix(min(length, mixing.positions)).sum().backward()
    return mixing.weight.grad != 0


def below(kind: str, weight: Tensor, used: Tensor, threshold: float) -> Tensor:
    """A mask of the weights smaller than *threshold* x the largest used one of their matrix.

    The first dimension of an ``A`` is the head, each with a matrix of its own.
    """
    size = weight.float().abs()
    largest = size.masked_fill(~used, 0)
    if kind == "A":
        largest = largest.flatten(1).amax(dim=1).view(-1, *[1] * (weight.dim() - 1))
    else:
        largest = largest.max()
    return size < threshold * largest


def _small(state: dict, kinds: Sequence[str], threshold: float, length: int):
    """(kind, layer, name, mask of small weights, mask of used weights) of each parameter."""
    for kind in kinds:
        for layer, name in parameter_names(state, kind).items():
            weight = state["model"][name]
            used = used_weights(state, kind, layer[0], weight, length)
            yield kind, layer, name, below(kind, weight, used, threshold), used


def sparsity(path: Path, threshold: float = PAPERS_THRESHOLD, length: int = 32) -> Sparsity:
    """The weights below the threshold, by matrix and layer.

    Args:
        path: a checkpoint of a ``resmlp_mt`` architecture.
        threshold: share of the largest weight of the same matrix.
        length: T, the longest sentence of which training had many; for A.

    Raises:
        UserError: if it is no trained checkpoint of ours, or folded.
    """
    check_threshold(threshold)
    state = load_ours(path)
    check_not_folded(state, path)
    counts: Dict[str, Dict[Layer, Count]] = {}
    for kind, layer, _, small, used in _small(state, KINDS, threshold, length):
        counts.setdefault(kind, {})[layer] = Count(int((small & used).sum()), int(used.sum()))
    length = min(length, max(positions(state, side) for side in SIDES))
    mixing = mixing_kind(state)
    by_distance = f"distances below {length}"
    of_a = {"toeplitz": by_distance, "gated": by_distance, "depthwise-conv": "taps"}
    return Sparsity(
        counts, threshold, of_a.get(mixing, f"first {length} positions"), mixing == "linear"
    )


def prune_checkpoint(
    path: Path,
    output: Path,
    threshold: float = PAPERS_THRESHOLD,
    which: Optional[Sequence[str]] = None,
    length: int = 32,
) -> Dict[str, Count]:
    """Write a checkpoint whose small weights are zero, without training it again.

    Args:
        path: a checkpoint of a ``resmlp_mt`` architecture.
        output: the checkpoint to write, without the state of the optimizer.
        threshold: share of the largest weight of the same matrix.
        which: of ``A``, ``B``, ``C``; default: all that it has.
        length: T, for the counts of A and for its largest weight. Small weights of A beyond T
            become zero too.

    Returns:
        weights removed by ``A``, ``B``, ``C``, 0 for those that are not in *which*.

    Raises:
        UserError: what :func:`sparsity` raises; an ``A`` asked for that is not there; *output* is
            *path*; what :func:`~resmlp_mt.checkpoints.loading.save_checkpoint` raises.
    """
    check_threshold(threshold)
    check_output(output, path)
    state = load_ours(path)
    check_not_folded(state, path)
    if which is not None and "A" in which:
        check_matrices(state, path)
    counts: Dict[str, Count] = {}
    for kind, _, name, small, used in _small(state, KINDS, threshold, length):
        prunes = which is None or kind in which
        if prunes:
            state["model"][name] = state["model"][name].masked_fill(small, 0)
        count = Count(int((small & used).sum()) if prunes else 0, int(used.sum()))
        counts[kind] = counts.get(kind, Count(0, 0)) + count
    state.pop("last_optimizer_state", None)
    save_checkpoint(state, output)
    return counts
