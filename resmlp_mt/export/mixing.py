"""Token mixing as ONNX operators: over a whole sentence, and for the newest token."""

import numpy as np

from resmlp_mt.export.onnx_graph import Graph, Name, Shape


def mixing_branch(graph: Graph, x: Name, layer: str, sizes: dict, sequence) -> Name:
    """``Z = X + Aff(A Aff(X))`` of a *layer*; *sequence* is one of the two classes below."""
    if sizes["mixing"] == "none":
        return x
    h = graph.norm(x, f"{layer}.mixing_norm")
    if sizes["mixing"] == "conv":
        y = graph.linear(sequence.taps(h, layer), f"{layer}.taps")
        if graph.has(f"{layer}.inside_bias"):
            y = graph.op("Add", y, sequence.inside_bias(f"{layer}.inside_bias"))
    elif sizes["mixing"] == "gated":
        value, gate = graph.split(graph.linear(h, f"{layer}.value_gate"), 2, axis=1)
        y = sequence.mix(value, layer)
        y = graph.op("Mul", y, graph.activation(gate, sizes["activation"]))
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
            if graph.has(part):
                x = graph.op(op, x, graph.array(part))
        weights = graph.weights[f"{name}.weights"]
        channels = graph.weights[f"{layer}.first.weight"].shape[0]
        x = self.reshape(x, len(weights), channels // len(weights))
        x = graph.op("Mul", x, self._inside)
        x = graph.op("MatMul", self._matrix(f"{name}.weights"), graph.transpose(x, 0, 2, 1, 3))
        x = graph.transpose(x, 0, 2, 1, 3)
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

    def taps(self, x: Name, layer: str) -> Name:
        """What each position reads of itself and its neighbours, (B S) x (K C)."""
        inputs, channels = self.graph.weights[f"{layer}.taps.weight"].shape
        x = self.graph.op("Mul", self.reshape(x, 1, channels), self._inside)
        x = self._taps(x, inputs // channels)
        return self.graph.reshape(x, -1, inputs)

    def inside_bias(self, name: str) -> Name:
        """The sum of the rows of a K x C bias whose taps fall into the sentence, (B S) x C."""
        graph, (taps, channels) = self.graph, self.graph.weights[name].shape
        bias = graph.op("MatMul", self._taps(self._inside, taps), graph.array(name))
        return graph.reshape(bias, -1, channels)

    def _taps(self, x: Name, count: int) -> Name:
        """B x S x 1 x C to B x S x 1 x (count C), the leftmost first."""
        graph, reach = self.graph, count // 2
        padded = graph.op("Pad", x, graph.constant([0, reach, 0, 0, 0, reach, 0, 0]))
        parts = []
        for tap in range(count):
            start = graph.constant([tap])
            end = graph.op("Add", start, self.length)
            parts.append(graph.op("Slice", padded, start, end, graph.constant([1])))
        return graph.concatenate(*parts, axis=3)


class NewestToken:
    """The newest token of each of J hypotheses of B sentences; states are (B J) x C.

    Past inputs of all L mixing layers are kept in n slots per sentence and never moved: ``ages``
    (B x J x n) says how many tokens back the one of a slot is, 0 where it is not in the past of a
    hypothesis. ``past`` is G x B x n x D, with G = L H and D = C / H for matrices, G = L and D = C
    for convolutions. The output ``new`` is (B J) x (L C). What the past adds in all layers is
    computed at once.
    """

    def __init__(self, graph: Graph, sizes: dict):
        self.graph, self._layers = graph, sizes["layers"][1]
        self.position = graph.input("position", "int32", [1])
        self.new: list[Name] = []
        self._past: list[Name] = []  # by layer
        if sizes["memory"]:
            groups, channels = sizes["memory"]
            shape: Shape = [groups, "sentences", "slots", channels]
            ages = graph.input("ages", "int32", ["sentences", "rows", "slots"])
            past = graph.input("past", "float32", shape)
            begin = self._begin_taps if sizes["window"] else self._begin_matrices
            begin(ages, past, groups * channels, sizes)

    def at_position(self, name: str) -> Name:
        """The row of an array N x ... that the newest token has, 1 x ..."""
        return self.graph.op("Gather", self.graph.array(name), self.position)

    def _begin_matrices(self, ages: Name, past: Name, width: int, sizes: dict) -> None:
        graph, places = self.graph, ages
        scale = ""
        if sizes["mixing"] != "gated":
            scale = graph.reshape(self._of_layers("scale", 0), *sizes["memory"])
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
        sums = graph.op("MatMul", rows, past)  # G x B x J x D
        sums = graph.transpose(sums, 1, 2, 0, 3)
        sums = graph.op("Mul", sums, scale) if scale else sums
        offset = graph.op("Gather", self._of_layers("offset", 1), self.position)
        sums = graph.reshape(graph.op("Add", sums, offset), -1, width)
        self._past = graph.split(sums, self._layers, axis=1)

    def _of_layers(self, part: str, axis: int) -> Name:
        """Arrays of all layers side by side, which happens when the graph is loaded."""
        names = [f"decoder.{number}.mixing.{part}" for number in range(self._layers)]
        return self.graph.concatenate(*map(self.graph.array, names), axis=axis)

    def _begin_taps(self, ages: Name, past: Name, width: int, sizes: dict) -> None:
        graph, back = self.graph, sizes["window"]
        ages = graph.op("Unsqueeze", ages, graph.constant([2]))  # B x J x 1 x n
        wanted = graph.constant(np.arange(back, 0, -1)[:, None], "int32")  # the oldest first
        chosen = graph.op("Cast", graph.op("Equal", ages, wanted), to=1)
        chosen = graph.op("Unsqueeze", chosen, graph.constant([0]))
        past = graph.op("Unsqueeze", past, graph.constant([2]))  # L x B x 1 x n x C
        read = graph.transpose(graph.op("MatMul", chosen, past), 1, 2, 0, 3, 4)
        read = graph.reshape(read, -1, back * width)
        self._past = graph.split(read, self._layers, axis=1)

    def mix(self, x: Name, layer: str) -> Name:
        """``A (scale x) + offset``."""
        number = len(self.new)
        self.new.append(x)
        own = self.graph.op("Mul", x, self._own[number])
        return self.graph.op("Add", own, self._past[number])

    def taps(self, x: Name, layer: str) -> Name:
        """What the newest position reads of the K last ones, (B J) x (K C), the oldest first."""
        if not self._past:
            return x
        self.new.append(x)
        return self.graph.concatenate(self._past[len(self.new) - 1], x, axis=1)

    def inside_bias(self, name: str) -> Name:
        """What the taps inside the sentence add, from K x C sums, 1 x C."""
        last = self.graph.constant([len(self.graph.weights[name]) - 1], "int32")
        place = self.graph.op("Min", self.position, last)
        return self.graph.op("Gather", self.graph.array(name), place)
