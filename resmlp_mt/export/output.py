"""The output layer: logits of all words or of a shortlist, and the best continuations."""

from typing import Tuple

import numpy as np
from torch import nn

from resmlp_mt.export.onnx_graph import Graph, Name, array, quantize
from resmlp_mt.export.runtime import BLOCK

LOWEST = float(np.finfo(np.float16).min)  # of a score: no word, no position


def logits_of(graph: Graph, x: Name, layer: nn.Linear, shortlist: bool) -> Name:
    """The logits of all words, or of those of a shortlist where one is given: whole blocks."""
    weight, bias = whole_blocks(layer)
    if graph.precision != "int8":  # the bias is one channel more: adding it separately is slower
        x = graph.op("Pad", x, graph.constant([0, 0, 0, 0, 0, 1]), graph.constant(1, "float32"))
        weight, bias = np.concatenate([weight, bias[None]]), None
    if not shortlist:
        return graph.product(x, weight, bias)
    channels = len(weight)
    kind = "float32" if bias is None else "int8"
    given = [graph.optional("output.weight", np.zeros((channels, 0), kind), [channels, "listed"])]
    if bias is not None:
        for name in ("output.scale", "output.bias"):
            given.append(graph.optional(name, np.zeros(0, np.float32), ["listed"]))
    return graph.either(
        graph.op("Squeeze", graph.cast(graph.size(given[0], 1), "bool")),
        lambda: graph.op("MatMul", x, *given) if bias is None else graph.integer_product(x, *given),
        lambda: graph.product(x, weight, bias),
    )


def give_shortlist(graph: Graph, layer: nn.Linear) -> None:
    """The output layer for a list of K words.

    Input: ``shortlist``, int32, numbers of words, -1 where there is none to fill a block; empty
    unless given. Outputs: ``output.weight`` (C + 1 x K, the bias last), or for int8
    ``output.weight`` (C x K), ``output.scale`` (K) and ``output.bias`` (K).
    """
    words = graph.optional("shortlist", np.zeros(0, np.int32), ["listed"])
    weight, bias = whole_blocks(layer)
    zero, lowest = graph.constant(0, "int32"), graph.constant(LOWEST, "float32")
    places = graph.op("Max", words, zero)
    bias = graph.op("Gather", graph.constant(bias, "float32"), places)
    bias = graph.op("Where", graph.op("Less", words, zero), lowest, bias)
    if graph.precision == "int8":
        rounded, scale = quantize(weight, axis=0)
        rows = graph.op("Gather", graph.constant(rounded.T, "int8"), places)
        scale = graph.op("Gather", graph.constant(scale, "float32"), places)
        found = {"weight": graph.transpose(rows, 1, 0), "scale": scale, "bias": bias}
    else:
        rows = graph.transpose(graph.look_up(weight.T, places), 1, 0)
        bias = graph.op("Unsqueeze", bias, graph.constant([0]))
        found = {"weight": graph.concatenate(rows, bias)}
    kind = "int8" if "scale" in found else "float32"
    graph.output(found.pop("weight"), "output.weight", kind, ["channels", "listed"])
    for name, value in found.items():
        graph.output(value, f"output.{name}", "float32", ["listed"])


def whole_blocks(layer: nn.Linear) -> Tuple[np.ndarray, np.ndarray]:
    """Weight (C x V) and bias (V) of an output layer, with more words to fill the last block. Their
    bias lets none of them win."""
    size = layer.out_features
    width = -(-size // BLOCK) * BLOCK
    weight = np.zeros((layer.in_features, width), np.float32)
    weight[:, :size] = array(layer.weight).T
    bias = np.full(width, LOWEST, np.float32)
    bias[:size] = 0 if layer.bias is None else array(layer.bias)
    return weight, bias


def best_continuations(
    graph: Graph, logits: Name, dictionary, position: Name, totals: Name, count: Name
) -> None:
    """The best continuations: scores of all words never leave the graph.

    The *count* best of a sentence are in its blocks of words with the highest maxima. One block
    more for each row is looked at, because the first has words that are excluded.
    """
    scores = graph.op("LogSoftmax", logits, axis=-1)
    end = graph.op("Gather", scores, graph.constant(dictionary.eos(), "int32"), axis=2)
    graph.output(graph.op("Add", end, totals), "end_scores", "float32", ["sentences", "rows"])

    by_block = graph.reshape(scores, 0, 0, -1, BLOCK)
    best = graph.op("ReduceMax", by_block, graph.constant([3]), keepdims=0)
    best = graph.op("Add", best, graph.op("Unsqueeze", totals, graph.constant([2])))
    blocks, width = graph.size(best, 2), graph.size(scores, 2)  # of a row; and its words
    best = graph.reshape(best, 0, -1)
    count = graph.cast(count, "int64")
    kept = graph.op("Add", count, graph.size(totals, 1))
    kept = graph.op("Min", kept, graph.size(best, 1))
    _, kept = graph.op("TopK", best, kept, axis=1, outputs=2)  # B x K
    rows, places = graph.op("Div", kept, blocks), graph.op("Mod", kept, blocks)

    of_blocks = graph.reshape(scores, 0, -1, BLOCK)
    last = graph.constant([-1])
    found = graph.op("GatherND", of_blocks, graph.op("Unsqueeze", kept, last), batch_dims=1)
    before = graph.op("GatherElements", totals, rows, axis=1)
    found = graph.op("Add", found, graph.op("Unsqueeze", before, last))
    found = graph.op("Add", found, exclusions(graph, places, position, dictionary))
    found, places = graph.op("TopK", graph.reshape(found, 0, -1), count, axis=1, outputs=2)

    shape, size = ["sentences", "candidates"], graph.constant(BLOCK)
    graph.output(found, "scores", "float32", shape)
    kept = graph.op("GatherElements", kept, graph.op("Div", places, size), axis=1)
    words = graph.op("Add", graph.op("Mul", kept, size), graph.op("Mod", places, size))
    graph.output(graph.cast(graph.op("Mod", words, width), "int32"), "candidates", "int32", shape)
    graph.output(graph.cast(graph.op("Div", words, width), "int32"), "parents", "int32", shape)


def exclusions(graph: Graph, blocks: Name, position: Name, dictionary) -> Name:
    """What is added to the scores of *blocks* (B x K): the padding is no word, and a sentence does
    not end before its first one. B x K x BLOCK."""
    table = np.zeros((2, 2, BLOCK), np.float32)  # of the first position or another, the first
    table[:, 0, dictionary.pad()] = -np.inf  # block or another
    table[0, 0, dictionary.eos()] = -np.inf
    one = graph.constant(1)
    later = graph.op("Min", graph.cast(position, "int64"), one)
    of_position = graph.op("Gather", graph.constant(table, "float32"), later)
    of_position = graph.op("Squeeze", of_position, graph.constant([0]))
    return graph.op("Gather", of_position, graph.op("Min", blocks, one))
