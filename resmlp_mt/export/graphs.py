"""The encoder and one step of the decoder as ONNX graphs, from a folded model."""

from typing import Dict, Optional, Tuple

import numpy as np
import torch
from torch import nn

from resmlp_mt.export.mixing import mixing_branch, normed
from resmlp_mt.export.onnx_graph import Graph, Name, array
from resmlp_mt.export.output import LOWEST, best_continuations, give_shortlist, logits_of
from resmlp_mt.export.sequences import NewestWord, WholeSentence


def encoder_graph(
    model: nn.Module, precision: str, metadata: Dict[str, str], shortlist: bool = False
) -> bytes:
    """B sentences of S words, padded on the right, to what the decoder reads of them.

    Input: ``words``, int32, B x S. Outputs: ``states`` (B x S x C), ``mask`` (B x 1 x 1 x S, added
    to the scores of attention), and for each decoder layer l ``keys.l`` (B x H x C / H x S) and
    ``values.l`` (B x H x S x C / H).

    Args:
        shortlist: whether there are the input and the outputs of :func:`give_shortlist`, too.
    """
    encoder, graph = model.encoder, Graph("encoder", precision)
    words = graph.input("words", "int32", ["sentences", "length"])
    padding = graph.op("Equal", words, graph.constant(encoder.padding_idx, "int32"))
    hidden = graph.multiply(graph.cast(padding, "float32"), LOWEST)
    hidden = graph.op("Unsqueeze", hidden, graph.constant([1, 2]))
    graph.output(hidden, "mask", "float32", ["sentences", 1, 1, "length"])
    inside = graph.cast(graph.op("Not", padding), "float32")
    inside = graph.op("Unsqueeze", inside, graph.constant([2]))
    sequence = WholeSentence(graph, words, inside)
    x = sequence.without_padding(embed(graph, words, encoder, sequence))
    for layer in encoder.layers:
        x, _ = layer_body(graph, x, layer, sequence)
    x = normed(graph, x, encoder.layer_norm)
    channels = model.decoder.layers[0].cross_attention.attn.kdim
    graph.output(x, "states", "float32", ["sentences", "length", channels])
    for number, layer in enumerate(model.decoder.layers):
        attn = layer.cross_attention.attn
        heads, each = attn.num_heads, attn.head_dim
        for name, projection, order, shape in (
            ("keys", attn.k_proj, (0, 2, 3, 1), (each, "length")),
            ("values", attn.v_proj, (0, 2, 1, 3), ("length", each)),
        ):
            by_head = graph.reshape(graph.linear(x, projection), 0, 0, heads, each)
            by_head = graph.transpose(by_head, *order)
            graph.output(by_head, f"{name}.{number}", "float32", ["sentences", heads, *shape])
    if shortlist:
        give_shortlist(graph, model.decoder.output_projection)
    return graph.build(metadata)


def step_graph(
    model: nn.Module, precision: str, metadata: Dict[str, str], shortlist: bool = False
) -> Tuple[bytes, list]:
    """One decoding step of J hypotheses of B sentences, with the best continuations.

    Inputs: ``words`` (int32, B x J), those of :class:`NewestWord`, ``totals`` (B x J, scores so
    far), ``count`` (int32, 1: how many continuations), and those outputs of the encoder.
    Outputs: ``scores``, ``candidates`` (int32), ``parents`` (int32): B x count, the best first;
    ``end_scores`` (B x J, of the end of sentence), ``attention`` (B x J x S, of the last layer,
    mean of the heads), ``new.i``.

    Args:
        shortlist: whether there are the inputs that :func:`give_shortlist` gives, too. Candidates
            are places in the list then.

    Returns:
        the file, and the shape of each state.
    """
    decoder, graph = model.decoder, Graph("step", precision)
    words = graph.input("words", "int32", ["sentences", "rows"])
    totals = graph.input("totals", "float32", ["sentences", "rows"])
    count = graph.input("count", "int32", [1])
    mask = graph.input("mask", "float32", ["sentences", 1, 1, "length"])
    sequence = NewestWord(graph, decoder)
    x = embed(graph, words, decoder, sequence)
    weights = None
    for number, layer in enumerate(decoder.layers):
        x, weights = layer_body(graph, x, layer, sequence, number, mask)
    attention = graph.op("ReduceMean", weights, graph.constant([1]), keepdims=0)
    graph.output(attention, "attention", "float32", ["sentences", "rows", "length"])
    x = normed(graph, x, decoder.layer_norm)
    if decoder.project_out_dim is not None:
        x = graph.linear(x, decoder.project_out_dim)
    logits = logits_of(graph, x, decoder.output_projection, shortlist)
    best_continuations(graph, logits, decoder.dictionary, sequence.position, totals, count)
    return graph.build(metadata), sequence.states


def embed(graph: Graph, words: Name, side: nn.Module, sequence) -> Name:
    """Words to states, as the encoder and the decoder of fairseq do it."""
    table = array(side.embed_tokens.weight) * np.float32(side.embed_scale)
    x = graph.look_up(table, words)
    decoder = hasattr(side, "project_in_dim")
    if decoder and side.quant_noise is not None:
        x = graph.linear(x, side.quant_noise)
    if decoder and side.project_in_dim is not None:
        x = graph.linear(x, side.project_in_dim)
    if side.embed_positions is not None:
        x = graph.op("Add", x, sequence.at_positions(position_table(side)))
    if side.layernorm_embedding is not None:
        x = graph.layer_norm(x, side.layernorm_embedding)
    if not decoder and side.quant_noise is not None:
        x = graph.linear(x, side.quant_noise)
    return x


@torch.no_grad()
def position_table(side: nn.Module) -> torch.Tensor:
    """The embedding of each position, N x C."""
    count = side.max_positions() if callable(side.max_positions) else side.max_positions
    words = torch.full((1, count), side.padding_idx + 1)
    return side.embed_positions(words)[0]


def layer_body(
    graph: Graph, x: Name, layer: nn.Module, sequence, number: int = 0, mask: Name = ""
) -> Tuple[Name, Optional[Name]]:
    """A layer of either side, and in the decoder the weights of its attention."""
    x = mixing_branch(graph, x, layer.token_mixing, sequence)
    attention, weights = getattr(layer, "cross_attention", None), None
    if attention is not None:
        x, weights = attend(graph, x, attention, number, mask)
    return feed_forward(graph, x, layer.feed_forward), weights


def feed_forward(graph: Graph, x: Name, branch: nn.Module) -> Name:
    """``Y = Z + C GELU(B Z)``."""
    h = graph.linear(normed(graph, x, branch.pre), branch.fc1)
    h = graph.activation(h, branch.activation_fn)
    return graph.op("Add", x, graph.linear(h, branch.fc2))


def attend(graph: Graph, x: Name, branch: nn.Module, number: int, mask: Name) -> Tuple[Name, Name]:
    """Cross-attention: B x J x C to the same, and the weights B x H x J x S."""
    attn = branch.attn
    heads, each = attn.num_heads, attn.head_dim
    keys = graph.input(f"keys.{number}", "float32", ["sentences", heads, each, "length"])
    values = graph.input(f"values.{number}", "float32", ["sentences", heads, "length", each])
    h = normed(graph, x, branch.pre)
    query = attn.q_proj
    scale = np.float32(attn.scaling)
    bias = None if query.bias is None else array(query.bias) * scale
    q = graph.product(h, array(query.weight).T * scale, bias)
    q = graph.transpose(graph.reshape(q, 0, 0, heads, each), 0, 2, 1, 3)
    scores = graph.op("Add", graph.op("MatMul", q, keys), mask)
    weights = graph.op("Softmax", scores, axis=-1)
    y = graph.transpose(graph.op("MatMul", weights, values), 0, 2, 1, 3)
    y = graph.reshape(y, 0, 0, heads * each)
    return graph.op("Add", x, graph.linear(y, attn.out_proj)), weights
