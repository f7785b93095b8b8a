"""Each kind of token mixing as ONNX operators, in the folded form of the affine maps around it."""

from functools import singledispatch
from typing import Optional

from torch import nn

from resmlp_mt.decoding.folding import (
    FoldedBranch,
    FoldedCommutingBranch,
    FoldedConvBranch,
    FoldedGatedBranch,
    FoldedMlpBranch,
    FoldedSeparableBranch,
    FoldedTokenMixing,
    by_channel,
    unchanged,
)
from resmlp_mt.export.onnx_graph import Graph, Name
from resmlp_mt.model.convolutional_mixing import DepthwiseConvTokenMixing


def mixing_branch(graph: Graph, x: Name, branch: nn.Module, sequence) -> Name:
    """``Z = X + Aff(A Aff(X))``; *branch* is a folded one, or the one that adds nothing.

    Args:
        graph: to add to.
        x: the states.
        branch: of the model.
        sequence: what the positions are, see :mod:`resmlp_mt.export.sequences`.
    """
    if not isinstance(branch, FoldedBranch):  # --token-mixing none
        return x
    h = normed(graph, x, branch.pre)
    return graph.op("Add", x, folded_mixing(branch, graph, h, sequence))


def normed(graph: Graph, x: Name, norm: Optional[nn.Module]) -> Name:
    """The map before a branch or after a stack, where folding has left one: a LayerNorm."""
    return x if norm is None or norm is unchanged else graph.layer_norm(x, norm)


@singledispatch
def folded_mixing(branch: FoldedBranch, graph: Graph, x: Name, sequence) -> Name:
    """What a branch adds to the states."""
    raise NotImplementedError(f"{type(branch).__name__} has no form in ONNX")


@folded_mixing.register
def _(branch: FoldedCommutingBranch, graph, x, sequence):
    return scaled_mixing(graph, x, branch.folded, branch.mixing, sequence)


@folded_mixing.register
def _(branch: FoldedMlpBranch, graph, x, sequence):
    mixing, parts = branch.mixing, []
    for j, (first, second) in enumerate(zip(mixing.first, mixing.second)):
        hidden = scaled_mixing(graph, x, mixing.folded["first"][j], first, sequence)
        hidden = graph.activation(hidden, mixing.activation)
        parts.append(scaled_mixing(graph, hidden, mixing.folded["second"][j], second, sequence))
    return graph.op("Sum", *parts)


@folded_mixing.register
def _(branch: FoldedSeparableBranch, graph, x, sequence):
    mixing = branch.mixing
    h = scaled_mixing(graph, x, mixing.folded, mixing.depthwise, sequence)
    return graph.linear(h, mixing.pointwise)


@folded_mixing.register
def _(branch: FoldedGatedBranch, graph, x, sequence):
    mixing = branch.mixing
    both = graph.linear(x, mixing.value_gate)
    value, gate = graph.op("Split", both, outputs=2, axis=-1, num_outputs=2)
    y = sequence.matrix_product(sequence.without_padding(value), mixing.toeplitz)
    if mixing.toeplitz.bias is not None:
        by_head = mixing.toeplitz.bias.detach().t().unsqueeze(1)  # N x 1 x H
        bias = by_channel(by_head, mixing.toeplitz)
        y = graph.op("Add", y, sequence.at_positions(bias))
    gated = graph.op("Mul", y, graph.activation(gate, mixing.activation))
    return graph.linear(gated, mixing.output)


@folded_mixing.register
def _(branch: FoldedConvBranch, graph, x, sequence):
    mixing = branch.mixing
    taps = sequence.taps(sequence.without_padding(x), mixing.kernel_size, mixing.channels)
    y = graph.linear(taps, mixing.taps)
    if mixing.inside_bias is None:
        return y
    return graph.op("Add", y, sequence.inside_bias(mixing.inside_bias))


def scaled_mixing(
    graph: Graph, x: Name, folded: FoldedTokenMixing, mixing: nn.Module, sequence
) -> Name:
    """``A (scale x + row_sum_scale) + offset``."""
    h = graph.multiply(x, folded.scale.detach().float())
    if folded.row_sum_scale is not None:
        h = graph.add(h, folded.row_sum_scale.detach().float())
    h = sequence.without_padding(h)
    if isinstance(mixing, DepthwiseConvTokenMixing):
        y = depthwise(graph, h, mixing, sequence)
    else:
        y = sequence.matrix_product(h, mixing)
    return graph.op("Add", y, sequence.at_positions(folded.offset))


def depthwise(graph: Graph, x: Name, mixing: DepthwiseConvTokenMixing, sequence) -> Name:
    """``sum_k w[c, k] x[t + k, c]``."""
    taps = graph.reshape(
        sequence.taps(x, mixing.kernel_size, mixing.channels),
        0,
        0,
        mixing.kernel_size,
        mixing.channels,
    )
    weight = mixing.weight.detach().float().t()  # K x C
    return graph.op("ReduceSum", graph.multiply(taps, weight), graph.constant([2]), keepdims=0)


def window_of(model: nn.Module) -> int:
    """How many past positions a decoding step reads at most; 0: all of them."""
    kernels = {m.kernel_size for m in model.decoder.modules() if hasattr(m, "kernel_size")}
    return max(kernels) - 1 if kernels else 0
