"""Each kind of token mixing as ONNX operators, in the folded form of the affine maps around it."""

from typing import Callable, Optional

import torch
from torch import nn

from resmlp_mt.errors import UserError
from resmlp_mt.export.onnx_graph import Graph, Name
from resmlp_mt.model.affine import Affine
from resmlp_mt.model.conv_mixing import ConvTokenMixing, FoldedConvTokenMixing
from resmlp_mt.model.folding import (
    FoldedTokenMixing,
    before,
    by_channel,
    fold_layer,
    unchanged,
    with_parts,
)
from resmlp_mt.model.gated_mixing import GatedTokenMixing
from resmlp_mt.model.mixing_kinds import NoTokenMixing
from resmlp_mt.model.token_mixing import ToeplitzTokenMixing, TokenMixing


@torch.no_grad()
def folded_copy(model: nn.Module) -> nn.Module:
    """*model* with folded layers that absorb the two final affine maps as well."""
    encoder, decoder = model.encoder, model.decoder
    layers = nn.ModuleList(fold_layer(layer) for layer in decoder.layers)
    norm, last = encoder.layer_norm, decoder.layer_norm
    if isinstance(norm, Affine):
        for layer in layers:
            attn = layer.cross_attention.attn
            k_proj, v_proj = before(norm, attn.k_proj), before(norm, attn.v_proj)
            attn = with_parts(attn, k_proj=k_proj, v_proj=v_proj)
            layer.cross_attention = with_parts(layer.cross_attention, attn=attn)
        norm = None
    absorbed = {"layers": layers, "folded": None}
    if isinstance(last, Affine):
        name = "output_projection" if decoder.project_out_dim is None else "project_out_dim"
        absorbed.update({name: before(last, getattr(decoder, name)), "layer_norm": None})
    layers = nn.ModuleList(fold_layer(layer) for layer in encoder.layers)
    encoder = with_parts(encoder, layers=layers, layer_norm=norm, folded=None)
    return with_parts(model, encoder=encoder, decoder=with_parts(decoder, **absorbed))


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
