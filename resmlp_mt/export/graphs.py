"""The encoder and one step of the decoder as ONNX graphs over the arrays of weights.py.

The embeddings are looked up by the runtime: the rows of one matrix serve the source, the target
and, as columns, the output layer.
"""

import numpy as np
from torch import nn

from resmlp_mt.export.onnx_graph import Graph, Name
from resmlp_mt.export.runtime import EOS, WEIGHTS
from resmlp_mt.export.weights import weights_of


def exported(model: nn.Module, precision: str) -> tuple[dict[str, bytes], dict]:
    """The graphs and their weights as files by name, and the sizes for config.json."""
    weights, sizes = weights_of(model, precision)
    data, offsets = weights.serialized()
    encoder = encoder_graph(Graph("encoder", weights), sizes)
    step = step_graph(Graph("step", weights), sizes)
    graphs = {f"{graph.name}.onnx": graph.build(offsets) for graph in (encoder, step)}
    return {**graphs, WEIGHTS: data}, sizes


def encoder_graph(graph: Graph, sizes: dict) -> Graph:
    """B sentences of S tokens, padded on the right, to what the decoder reads of them.

    Inputs: ``embedded`` (B x S x C), ``inside`` (B x S x 1 x 1; 1 at tokens, 0 at padding).
    Outputs, of each decoder layer l: ``keys.l`` and ``values.l``, B x H x S x C / H.
    """
    (width, target), (layers, readers) = sizes["channels"], sizes["layers"]
    x = graph.input("embedded", "float32", ["sentences", "length", width])
    inside = graph.input("inside", "float32", ["sentences", "length", 1, 1])
    sequence = WholeSentence(graph, inside)
    if "encoder.positions" in graph.weights:
        x = graph.op("Add", x, sequence.at_positions("encoder.positions"))
    x = graph.reshape(x, -1, width)
    for name in (f"encoder.{number}" for number in range(layers)):
        x = mixing_branch(graph, x, name, sizes, sequence)
        x = feed_forward(graph, x, name, sizes)
    x = graph.linear(graph.norm(x, "encoder.last_norm"), "encoder.keys_values")
    heads, channels = sizes["heads"], target // sizes["heads"]
    x = sequence.reshape(x, 2 * readers * heads, channels)
    x = graph.op("Transpose", x, perm=(0, 2, 1, 3))
    for number, part in enumerate(graph.split(x, 2 * readers, axis=1)):
        name = f"{('keys', 'values')[number % 2]}.{number // 2}"
        graph.output(part, name, "float32", ["sentences", heads, "length", channels])
    return graph


def step_graph(graph: Graph, sizes: dict) -> Graph:
    """One decoding step of J hypotheses of B sentences, and its memory.

    Inputs: ``embedded`` ((B J) x C, the newest tokens), ``shape`` (int64: B, J, C), ``lengths``
    (int32, B, of the sources), ``count`` (int64, 1), those of :class:`NewestToken`, and the outputs
    of the encoder.
    Outputs, of each hypothesis: ``scores`` and ``tokens`` (int64), log probabilities of the *count*
    best tokens, the best first; ``end_scores`` (B J), of the end of sentence; ``new``.
    """
    width = sizes["channels"][1]
    x = graph.input("embedded", "float32", ["all rows", width])
    shape, count = graph.input("shape", "int64", [3]), graph.input("count", "int64", [1])
    graph.input("lengths", "int32", ["sentences"])
    sequence = NewestToken(graph, sizes)
    if "decoder.positions" in graph.weights:
        x = graph.op("Add", x, sequence.at_position("decoder.positions"))
    for number in range(sizes["layers"][1]):
        name = f"decoder.{number}"
        x = mixing_branch(graph, x, name, sizes, sequence)
        x = attend(graph, x, number, shape, sizes)
        x = feed_forward(graph, x, name, sizes)
    if sequence.new:
        new = graph.op("Concat", *sequence.new, axis=1)
        graph.output(new, "new", "float32", ["all rows", "all channels"])
    x = graph.norm(x, "decoder.last_norm")
    if "decoder.output_scale" in graph.weights:
        x = graph.op("Mul", x, graph.array("decoder.output_scale"))
    scores = graph.op("LogSoftmax", graph.linear(x, "decoder.output"), axis=-1)
    end = graph.op("Gather", scores, graph.constant(EOS), axis=1)
    graph.output(end, "end_scores", "float32", ["all rows"])
    best, tokens = graph.op("TopK", scores, count, outputs=2, axis=1)
    graph.output(best, "scores", "float32", ["all rows", "count"])
    graph.output(tokens, "tokens", "int64", ["all rows", "count"])
    return graph


def feed_forward(graph: Graph, x: Name, layer: str, sizes: dict) -> Name:
    """``Y = Z + C GELU(B Z)``."""
    h = graph.linear(graph.norm(x, f"{layer}.feed_forward_norm"), f"{layer}.first")
    h = graph.op(sizes["activation"].capitalize(), h)  # Relu or Gelu
    return graph.op("Add", x, graph.linear(h, f"{layer}.second"))


def attend(graph: Graph, x: Name, number: int, shape: Name, sizes: dict) -> Name:
    """Cross-attention: (B J) x C to the same."""
    layer, heads, width = f"decoder.{number}", sizes["heads"], sizes["channels"][1]
    each = ["sentences", heads, "length", width // heads]
    read = [graph.input(f"{name}.{number}", "float32", each) for name in ("keys", "values")]
    query = graph.linear(graph.norm(x, f"{layer}.attention_norm"), f"{layer}.query")
    y = graph.op(
        "MultiHeadAttention",
        *(graph.op("Reshape", query, shape), *read, "", "lengths"),
        domain="com.microsoft",
        num_heads=heads,
        scale=1.0,
    )
    return graph.op("Add", x, graph.linear(graph.reshape(y, -1, width), f"{layer}.attended"))


def mixing_branch(graph: Graph, x: Name, layer: str, sizes: dict, sequence) -> Name:
    """``Z = X + Aff(A Aff(X))`` of a *layer*; *sequence* is one of the two classes below."""
    if sizes["mixing"] == "none":
        return x
    h = graph.norm(x, f"{layer}.mixing_norm")
    if sizes["mixing"] == "gated":
        value, gate = graph.split(graph.linear(h, f"{layer}.value_gate"), 2, axis=1)
        y = sequence.mix(value, layer)
        y = graph.op("Mul", y, graph.op(sizes["activation"].capitalize(), gate))
        y = graph.linear(y, f"{layer}.output")
    else:
        y = sequence.mix(h, layer)
    return graph.op("Add", x, y)


class WholeSentence:
    """All positions of B sentences of S tokens, padded on the right; states are (B S) x C.

    *inside* is B x S x 1 x 1: 1 at tokens, 0 at padding.
    """

    def __init__(self, graph: Graph, inside: Name):
        self.graph, self._inside = graph, inside
        self.length = graph.op("Shape", inside, start=1, end=2)

    def reshape(self, x: Name, *sizes: int) -> Name:
        """To B x S x the *sizes*."""
        graph = self.graph
        parts = graph.constant([-1]), self.length, graph.constant(sizes)
        return graph.op("Reshape", x, graph.concatenate(*parts, axis=0))

    def at_positions(self, name: str) -> Name:
        """The rows of an array N x ... that the sentence has, S x ..."""
        graph = self.graph
        first, axis = graph.constant([0]), graph.constant([0])
        return graph.op("Slice", graph.array(name), first, self.length, axis)

    def mix(self, x: Name, layer: str) -> Name:
        """``A (scale x + shift) + offset``."""
        graph, name = self.graph, f"{layer}.mixing"
        for op, part in ("Mul", f"{name}.scale"), ("Add", f"{name}.shift"):
            if part in graph.weights:
                x = graph.op(op, x, graph.array(part))
        weights = graph.weights[f"{name}.weights"]
        channels = graph.weights[f"{layer}.first.weight"].shape[0]
        x = self.reshape(x, len(weights), channels // len(weights))
        x = graph.op("Mul", x, self._inside)
        x = graph.op(
            "MatMul", self._matrix(f"{name}.weights"), graph.op("Transpose", x, perm=(0, 2, 1, 3))
        )
        x = graph.op("Transpose", x, perm=(0, 2, 1, 3))
        x = graph.op("Add", x, self.at_positions(f"{name}.offset"))
        return graph.reshape(x, -1, channels)

    def _matrix(self, name: str) -> Name:
        """A, H x S x S, of H x N x N weights or, of a Toeplitz matrix, H x (2 N - 1)."""
        graph, weights, shape = self.graph, self.graph.array(name), self.graph.weights[name].shape
        if len(shape) == 3:
            ends = graph.concatenate(self.length, self.length, axis=0)
            return graph.op("Slice", weights, graph.constant([0, 0]), ends, graph.constant([1, 2]))
        # row t and column s read the weight of the distance t - s
        zero, one = graph.constant(0), graph.constant(1)
        column = graph.op("Range", zero, graph.op("Squeeze", self.length), one)
        row = graph.op("Unsqueeze", column, graph.constant([1]))
        row = graph.op("Add", row, graph.constant(shape[1] // 2))
        return graph.op("Gather", weights, graph.op("Sub", row, column), axis=1)


class NewestToken:
    """The newest token of each of J hypotheses of B sentences; states are (B J) x C.

    Past inputs of the L mixing layers, of H heads each, are kept in n slots per sentence and never
    moved: ``ages`` (B x J x n) says how many tokens back the one of a slot is, 0 where it is not in
    the past of a hypothesis. ``past`` is L H x B x n x C / H. The output ``new`` is (B J) x (L C).
    What the past adds in all layers is computed at once.
    """

    def __init__(self, graph: Graph, sizes: dict):
        self.graph, self._layers = graph, sizes["layers"][1]
        self.position = graph.input("position", "int32", [1])
        self.new: list[Name] = []
        if sizes["mixing"] == "none":
            return
        groups, channels = sizes["memory"]
        places = ages = graph.input("ages", "int32", ["sentences", "rows", "slots"])
        past = graph.input("past", "float32", [groups, "sentences", "slots", channels])
        scale = ""
        if sizes["mixing"] != "gated":
            scale = graph.reshape(self._of_layers("scale", 0), groups, channels)
        if sizes["mixing"] == "linear":
            own = graph.op("Gather", self._of_layers("own", 1), self.position)
            own = graph.reshape(graph.op("Mul", own, scale), 1, -1)
            self._own = graph.split(own, self._layers, axis=1)
            # the rows of the triangle are one after the other
            positions = np.arange(len(graph.weights["decoder.0.mixing.own"]))
            start = graph.constant(positions * (positions + 1) // 2, "int32")
            places = graph.op("Add", ages, graph.op("Gather", start, self.position))
        else:
            self._own = [graph.array(f"decoder.{i}.mixing.own") for i in range(self._layers)]
        rows = graph.op("Gather", self._of_layers("weights", 0), places, axis=1)
        sums = graph.op("MatMul", rows, past)  # L H x B x J x C / H
        sums = graph.op("Transpose", sums, perm=(1, 2, 0, 3))
        sums = graph.op("Mul", sums, scale) if scale else sums
        offset = graph.op("Gather", self._of_layers("offset", 1), self.position)
        sums = graph.reshape(graph.op("Add", sums, offset), -1, groups * channels)
        self._past = graph.split(sums, self._layers, axis=1)

    def _of_layers(self, part: str, axis: int) -> Name:
        """Arrays of all layers side by side, which happens when the graph is loaded."""
        names = [f"decoder.{number}.mixing.{part}" for number in range(self._layers)]
        return self.graph.concatenate(*map(self.graph.array, names), axis=axis)

    def at_position(self, name: str) -> Name:
        """The row of an array N x ... that the newest token has, 1 x ..."""
        return self.graph.op("Gather", self.graph.array(name), self.position)

    def mix(self, x: Name, layer: str) -> Name:
        """``A (scale x) + offset``."""
        number = len(self.new)
        self.new.append(x)
        own = self.graph.op("Mul", x, self._own[number])
        return self.graph.op("Add", own, self._past[number])
