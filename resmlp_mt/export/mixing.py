"""Each kind of token mixing as ONNX operators, in the folded form of the affine maps around it."""

from typing import Callable, Optional

from torch import nn

from resmlp_mt.errors import UserError
from resmlp_mt.export.onnx_graph import Graph, Name
from resmlp_mt.model.conv_mixing import ConvTokenMixing, FoldedConvTokenMixing
from resmlp_mt.model.folding import FoldedTokenMixing, by_channel, unchanged
from resmlp_mt.model.gated_mixing import GatedTokenMixing
from resmlp_mt.model.mixing_kinds import NoTokenMixing
from resmlp_mt.model.token_mixing import ToeplitzTokenMixing, TokenMixing


def mixing_branch(graph: Graph, x: Name, branch: nn.Module, sequence) -> Name:
    """``Z = X + Aff(A Aff(X))``; *branch* is a folded one, or the one that adds nothing.

    Args:
        graph: to add to.
        x: the states.
        branch: of the model.
        sequence: what the positions are, see :mod:`resmlp_mt.export.sequences`.
    """
    if isinstance(branch, NoTokenMixing):
        return x
    write = writer_of(branch.mixing)
    h = normed(graph, x, branch.pre)
    return graph.op("Add", x, write(graph, h, branch.mixing, sequence))


def normed(graph: Graph, x: Name, norm: Optional[nn.Module]) -> Name:
    """The map before a branch or after a stack, where folding has left one: a LayerNorm."""
    return x if norm is None or norm is unchanged else graph.layer_norm(x, norm)


def writer_of(mixing: nn.Module) -> Callable:
    """What writes a folded mixing to a graph."""
    kind = type(mixing)
    # a subclass has a matrix of its own, which the runtime does not know
    if kind is FoldedTokenMixing and type(mixing.mixing) in (TokenMixing, ToeplitzTokenMixing):
        return scaled_mixing
    if kind is GatedTokenMixing:
        return gated_mixing
    if kind in (ConvTokenMixing, FoldedConvTokenMixing):
        return convolution
    name = type(getattr(mixing, "mixing", mixing)).__name__
    raise UserError(
        f"the token mixing {name} cannot be exported, only linear, toeplitz, gated, conv and none: "
        "translate with resmlp-mt translate"
    )


def gated_mixing(graph: Graph, x: Name, mixing: GatedTokenMixing, sequence) -> Name:
    both = graph.linear(x, mixing.value_gate)
    value, gate = graph.op("Split", both, outputs=2, axis=-1, num_outputs=2)
    y = sequence.matrix_product(sequence.without_padding(value), mixing.toeplitz)
    if mixing.toeplitz.bias is not None:
        by_head = mixing.toeplitz.bias.detach().t().unsqueeze(1)  # N x 1 x H
        bias = by_channel(by_head, mixing.toeplitz)
        y = graph.op("Add", y, sequence.at_positions(bias))
    gated = graph.op("Mul", y, graph.activation(gate, mixing.activation))
    return graph.linear(gated, mixing.output)


def convolution(graph: Graph, x: Name, mixing: nn.Module, sequence) -> Name:
    conv = getattr(mixing, "mixing", mixing)
    taps = sequence.taps(sequence.without_padding(x), conv.kernel_size, conv.channels)
    y = graph.linear(taps, conv.taps)
    if conv is mixing:
        return y
    return graph.op("Add", y, sequence.inside_bias(mixing.inside_bias))


def scaled_mixing(graph: Graph, x: Name, folded: FoldedTokenMixing, sequence) -> Name:
    """``A (scale x + shift) + offset``."""
    h = graph.multiply(x, folded.scale.detach().float())
    if folded.shift is not None:
        h = graph.add(h, folded.shift.detach().float())
    y = sequence.matrix_product(sequence.without_padding(h), folded.mixing)
    return graph.op("Add", y, sequence.at_positions(folded.offset))


def window_of(model: nn.Module) -> int:
    """How many past positions a decoding step reads at most; 0: all of them."""
    kernels = {m.kernel_size for m in model.decoder.modules() if hasattr(m, "kernel_size")}
    return max(kernels) - 1 if kernels else 0
