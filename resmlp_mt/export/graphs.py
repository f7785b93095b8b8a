"""The encoder and one step of the decoder as ONNX graphs, from a folded model."""

from typing import Dict, Tuple

import numpy as np
import torch
from torch import nn

from resmlp_mt.export.mixing import mixing_branch
from resmlp_mt.export.onnx_graph import Graph, Name, array
from resmlp_mt.export.sequences import NewestWord, WholeSentence
from resmlp_mt.inference.folding import unchanged

BLOCK = 64  # words whose maximum is taken together, as in resmlp_mt.inference.candidates
LOWEST = float(np.finfo(np.float32).min)


def encoder_graph(model: nn.Module, precision: str, metadata: Dict[str, str]) -> bytes:
    """B sentences of S words, padded on the right, to what the decoder reads of them.

    Input: ``words``, int32, B x S. Outputs: ``states`` (B x S x C), ``mask`` (B x 1 x 1 x S, added
    to the scores of attention), and for each decoder layer l ``keys.l`` (B x H x C / H x S) and
    ``values.l`` (B x H x S x C / H).
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
        x = layer_body(graph, x, layer, sequence)
    x = final_norm(graph, x, encoder.layer_norm)
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
    return graph.build(metadata)


def step_graph(model: nn.Module, precision: str, metadata: Dict[str, str]) -> Tuple[bytes, list]:
    """One decoding step of J hypotheses of B sentences, with the best continuations.

    Inputs: ``words`` (int32, B x J), those of :class:`NewestWord`, ``totals`` (B x J, scores so
    far), ``count`` (int32, 1: how many continuations), and those outputs of the encoder.
    Outputs: ``scores``, ``candidates`` (int32), ``parents`` (int32): B x count, the best first;
    ``end_scores`` (B x J, of the end of sentence), ``attention`` (B x J x S, of the last layer,
    mean of the heads), ``new.i``.

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
    x = final_norm(graph, x, decoder.layer_norm)
    if decoder.project_out_dim is not None:
        x = graph.linear(x, decoder.project_out_dim)
    output_layer(graph, x, decoder, sequence.position, totals, count)
    return graph.build(metadata), sequence.states


def embed(graph: Graph, words: Name, side: nn.Module, sequence) -> Name:
    """Words to states, as the encoder and the decoder of fairseq do it."""
    table = array(side.embed_tokens.weight) * np.float32(side.embed_scale)
    x = graph.look_up(table, words)
    if side.quant_noise is not None:
        x = graph.linear(x, side.quant_noise)
    if getattr(side, "project_in_dim", None) is not None:
        x = graph.linear(x, side.project_in_dim)
    if side.embed_positions is not None:
        x = graph.op("Add", x, sequence.at_positions(position_table(side)))
    if side.layernorm_embedding is not None:
        x = graph.layer_norm(x, side.layernorm_embedding)
    return x


@torch.no_grad()
def position_table(side: nn.Module) -> torch.Tensor:
    """The embedding of each position, N x C."""
    count = side.max_positions() if callable(side.max_positions) else side.max_positions
    words = torch.full((1, count), side.padding_idx + 1)
    return side.embed_positions(words)[0]


def layer_body(graph: Graph, x: Name, layer: nn.Module, sequence, number: int = 0, mask: Name = ""):
    """A layer of either side; of the decoder with the weights of its attention."""
    x = mixing_branch(graph, x, layer.token_mixing, sequence)
    attention = getattr(layer, "cross_attention", None)
    weights = None
    if attention is not None:
        x, weights = attend(graph, x, attention, number, mask)
    x = feed_forward(graph, x, layer.feed_forward)
    return x if attention is None else (x, weights)


def feed_forward(graph: Graph, x: Name, branch: nn.Module) -> Name:
    """``Y = Z + C GELU(B Z)``."""
    h = x if branch.pre is unchanged else graph.layer_norm(x, branch.pre)
    h = graph.activation(graph.linear(h, branch.fc1), branch.activation_fn)
    return graph.op("Add", x, graph.linear(h, branch.fc2))


def attend(graph: Graph, x: Name, branch: nn.Module, number: int, mask: Name) -> Tuple[Name, Name]:
    """Cross-attention: B x J x C to the same, and the weights B x H x J x S."""
    attn = branch.attn
    heads, each = attn.num_heads, attn.head_dim
    keys = graph.input(f"keys.{number}", "float32", ["sentences", heads, each, "length"])
    values = graph.input(f"values.{number}", "float32", ["sentences", heads, "length", each])
    h = x if branch.pre is unchanged else graph.layer_norm(x, branch.pre)
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


def final_norm(graph: Graph, x: Name, norm: nn.Module) -> Name:
    """The map after a stack, where folding has left it."""
    return x if norm is None else graph.layer_norm(x, norm)


def output_layer(
    graph: Graph, x: Name, decoder: nn.Module, position: Name, totals: Name, count: Name
) -> None:
    """The best continuations: scores of all words never leave the graph.

    The *count* best words of a row are in the blocks with the highest maxima. Two more blocks are
    looked at than that, because two words are excluded: padding, and the end of sentence at the
    first position.
    """
    layer, dictionary = decoder.output_projection, decoder.dictionary
    size = layer.out_features
    blocks = -(-size // BLOCK)
    weight = np.zeros((layer.in_features, blocks * BLOCK), np.float32)
    weight[:, :size] = array(layer.weight).T
    bias = np.full(blocks * BLOCK, LOWEST, np.float32)
    bias[:size] = 0 if layer.bias is None else array(layer.bias)
    logits = graph.product(x, weight, bias)
    scores = graph.op("LogSoftmax", logits, axis=-1)
    end = graph.op("Gather", scores, graph.constant(dictionary.eos(), "int32"), axis=2)
    graph.output(graph.op("Add", end, totals), "end_scores", "float32", ["sentences", "rows"])

    count = graph.cast(count, "int64")
    by_block = graph.reshape(scores, 0, 0, blocks, BLOCK)
    best = graph.op("ReduceMax", by_block, graph.constant([3]), keepdims=0)
    kept = graph.op("Add", count, graph.constant([2]))
    kept = graph.op("Min", kept, graph.constant([blocks]))
    _, kept_blocks = graph.op("TopK", best, kept, axis=2, outputs=2)
    first = graph.op("Mul", kept_blocks, graph.constant(BLOCK))
    first = graph.op("Unsqueeze", first, graph.constant([3]))
    ids = graph.op("Add", first, graph.constant(np.arange(BLOCK)))
    ids = graph.reshape(ids, 0, 0, -1)  # B x J x (kept BLOCK)
    found = graph.op("GatherElements", scores, ids, axis=2)
    start = graph.op("Equal", position, graph.constant([0], "int32"))
    no_end = graph.op("And", graph.op("Equal", ids, graph.constant(dictionary.eos())), start)
    excluded = graph.op("Or", graph.op("Equal", ids, graph.constant(dictionary.pad())), no_end)
    found = graph.op("Where", excluded, graph.constant(-np.inf, "float32"), found)
    found, places = graph.op("TopK", found, count, axis=2, outputs=2)
    ids = graph.op("GatherElements", ids, places, axis=2)
    found = graph.op("Add", found, graph.op("Unsqueeze", totals, graph.constant([2])))

    found, ids = graph.reshape(found, 0, -1), graph.reshape(ids, 0, -1)
    found, places = graph.op("TopK", found, count, axis=1, outputs=2)
    shape = ["sentences", "candidates"]
    graph.output(found, "scores", "float32", shape)
    ids = graph.op("GatherElements", ids, places, axis=1)
    graph.output(graph.cast(ids, "int32"), "candidates", "int32", shape)
    graph.output(graph.cast(graph.op("Div", places, count), "int32"), "parents", "int32", shape)
