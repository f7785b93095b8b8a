"""What token mixing reads: all positions of a sentence, or the past of the newest word.

The two classes have the same methods, so that each kind of mixing is written once.
"""

from typing import Dict, List, Set, Tuple

import numpy as np
import torch
from torch import Tensor

from resmlp_mt.export.onnx_graph import Graph, Name
from resmlp_mt.modules.token_mixing import ToeplitzTokenMixing, TokenMixing


class WholeSentence:
    """Positions of B sentences in the encoder; states are B x S x C.

    Args:
        graph: of the encoder.
        words: B x S.
        inside: B x S x 1, 1 at words and 0 at padding.
    """

    def __init__(self, graph: Graph, words: Name, inside: Name):
        self.graph, self.inside = graph, inside
        self.length = graph.size(words, 1)

    def without_padding(self, x: Name) -> Name:
        """*x* with zeros at padding."""
        return self.graph.op("Mul", x, self.inside)

    def at_positions(self, values: Tensor) -> Name:
        """The rows of N x C values that the sentence has, S x C."""
        graph = self.graph
        return graph.slice(graph.matrix(values), graph.constant([0]), self.length, axis=0)

    def matrix_product(self, x: Name, mixing: TokenMixing) -> Name:
        """``A x``."""
        graph, heads = self.graph, mixing.heads
        if heads == 1:
            return graph.op(
                "MatMul", graph.op("Squeeze", self._matrix(mixing), graph.constant([0])), x
            )
        grouped = graph.transpose(
            graph.reshape(x, 0, 0, heads, mixing.channels // heads), 0, 2, 1, 3
        )
        mixed = graph.op("MatMul", self._matrix(mixing), grouped)
        return graph.reshape(graph.transpose(mixed, 0, 2, 1, 3), 0, 0, mixing.channels)

    def _matrix(self, mixing: TokenMixing) -> Name:
        """A, H x S x S."""
        graph = self.graph
        if not isinstance(mixing, ToeplitzTokenMixing):
            zero, ends = graph.constant([0, 0]), graph.concatenate(self.length, self.length)
            axes = graph.constant([1, 2])
            return graph.op("Slice", graph.matrix(mixing.weight), zero, ends, axes)
        # row t and column s read the weight of the distance t - s
        positions = graph.op(
            "Range", graph.constant(0), graph.op("Squeeze", self.length), graph.constant(1)
        )
        row = graph.op("Unsqueeze", positions, graph.constant([1]))
        row = graph.op("Add", row, graph.constant(mixing.positions - 1))
        return graph.op(
            "Gather", graph.matrix(mixing.weight), graph.op("Sub", row, positions), axis=1
        )

    def taps(self, x: Name, count: int, channels: int) -> Name:
        """What each position reads of itself and its neighbours: B x S x C to B x S x (count C),
        the leftmost first."""
        graph, reach = self.graph, count // 2
        padded = graph.op("Pad", x, graph.constant([0, reach, 0, 0, reach, 0]))
        starts = [graph.constant([tap]) for tap in range(count)]
        return graph.concatenate(
            *(
                graph.slice(padded, start, graph.op("Add", start, self.length), axis=1)
                for start in starts
            ),
            axis=2,
        )

    def inside_bias(self, bias: Tensor) -> Name:
        """The sum of the rows of a K x C *bias* whose taps fall into the sentence."""
        weight = bias.detach().float().numpy()
        return self.graph.op(
            "MatMul", self.taps(self.inside, len(bias), 1), self.graph.constant(weight, "float32")
        )


class NewestWord:
    """The newest word of each of J hypotheses of B sentences; states are B x J x C.

    The inputs that a mixing sublayer saw before are in n slots for each sentence, which the
    runtime fills. No slot moves: ``reads`` says which of them are in a hypothesis's past.

    Args:
        graph: of one decoding step, which gets these inputs: ``position`` (1), ``reads`` (B x J x
            n, 0 or 1), ``slot_positions`` (n), and for each state i ``past.i``, B x G x n x C / G.
            The newest inputs are the outputs ``new.i``, B x G x J x C / G. ``row.i`` (G x n) and
            ``own.i`` (G x 1) are the row of A, for those who look at the model.

    Attributes:
        states: G and C / G of each state.
    """

    def __init__(self, graph: Graph):
        self.graph = graph
        self.position = graph.input("position", "int32", [1])
        self.reads = graph.input("reads", "float32", ["sentences", "rows", "slots"])
        self.slots = graph.input("slot_positions", "int32", ["slots"])
        self.states: List[Tuple[int, int]] = []
        self._remembered: Dict[tuple, Tuple[Name, Name]] = {}
        self._shown: Set[str] = set()

    def without_padding(self, x: Name) -> Name:
        """*x*: a decoder reads no padding."""
        return x

    def at_positions(self, values: Tensor) -> Name:
        """The row of N x C values that the newest word has, 1 x C."""
        rows = self.graph.matrix(values)
        return self.graph.op("Gather", rows, self.position)

    def matrix_product(self, x: Name, mixing: TokenMixing) -> Name:
        """``A x`` at the newest position."""
        graph = self.graph
        past, newest = self._remember(x, mixing.heads, mixing.channels)
        weights, (slots, newest_column) = self._row(mixing)
        of_past = graph.op("Gather", weights, slots, axis=1)
        own = graph.op("Gather", weights, newest_column, axis=1)
        self._show(past, of_past, own, mixing.heads)
        # H x n to H x 1 x n, and with the sentences' reads B x H x J x n
        of_past = graph.op("Unsqueeze", of_past, graph.constant([1]))
        read = graph.op("Mul", graph.op("Unsqueeze", self.reads, graph.constant([1])), of_past)
        own = graph.op("Unsqueeze", own, graph.constant([2]))
        mixed = graph.op("Add", graph.op("MatMul", read, past), graph.op("Mul", newest, own))
        return self._ungrouped(mixed, mixing.heads, mixing.channels)

    def _show(self, past: Name, of_past: Name, own: Name, groups: int) -> None:
        """Give the row of A out, for whoever looks at the model; of two A of a state the first."""
        number = past.split(".")[1]
        if number not in self._shown:
            self._shown.add(number)
            self.graph.output(of_past, f"row.{number}", "float32", [groups, "slots"])
            self.graph.output(own, f"own.{number}", "float32", [groups, 1])

    def _row(self, mixing: TokenMixing) -> Tuple[Name, Tuple[Name, Name]]:
        """The weights of A, H x m, and where among them is the newest row: of slots, of itself."""
        graph = self.graph
        if isinstance(mixing, ToeplitzTokenMixing):
            distance = graph.op("Sub", self.position, self.slots)
            # a slot that nobody has filled may say anything
            distance = graph.op("Max", distance, graph.constant(0, "int32"))
            return graph.matrix(mixing.weight), (distance, graph.constant([0], "int32"))
        # the lower triangle row after row: row t begins at t (t + 1) / 2
        row, column = np.tril_indices(mixing.positions)
        packed = mixing.weight.detach()[:, torch.from_numpy(row), torch.from_numpy(column)]
        one, two = graph.constant(1, "int32"), graph.constant(2, "int32")
        begin = graph.op("Mul", self.position, graph.op("Add", self.position, one))
        begin = graph.op("Div", begin, two)
        return graph.matrix(packed), (
            graph.op("Add", begin, self.slots),
            graph.op("Add", begin, self.position),
        )

    def taps(self, x: Name, count: int, channels: int) -> Name:
        """What the newest position reads of the *count* last ones: B x J x C to B x J x (count C),
        the oldest first; zero before the first position."""
        graph = self.graph
        if count == 1:
            return x
        past, _ = self._remember(x, 1, channels)
        back = graph.constant(np.arange(count - 1, 0, -1)[:, None], "int32")
        wanted = graph.op("Sub", self.position, back)  # K - 1 x 1
        chosen = graph.cast(graph.op("Equal", wanted, self.slots), "float32")
        chosen = graph.op("Unsqueeze", chosen, graph.constant([1]))
        read = graph.op("Mul", graph.op("Unsqueeze", self.reads, graph.constant([1])), chosen)
        found = graph.transpose(graph.op("MatMul", read, past), 0, 2, 1, 3)
        return graph.concatenate(graph.reshape(found, 0, 0, (count - 1) * channels), x, axis=2)

    def inside_bias(self, bias: Tensor) -> Name:
        """The sum of the rows of a K x C *bias* whose taps fall into the sentence."""
        graph, taps = self.graph, len(bias)
        sums = bias.detach().float().flip(0).cumsum(0)
        place = graph.op("Min", self.position, graph.constant([taps - 1], "int32"))
        return graph.op("Gather", graph.matrix(sums), place)

    def _remember(self, x: Name, groups: int, channels: int) -> Tuple[Name, Name]:
        """The past and the newest of a state, by groups of channels."""
        key = (x, groups)
        if key not in self._remembered:
            graph, number, each = self.graph, len(self.states), channels // groups
            past = graph.input(f"past.{number}", "float32", ["sentences", groups, "slots", each])
            if groups == 1:
                newest = graph.op("Unsqueeze", x, graph.constant([1]))
            else:
                newest = graph.transpose(graph.reshape(x, 0, 0, groups, each), 0, 2, 1, 3)
            graph.output(newest, f"new.{number}", "float32", ["sentences", groups, "rows", each])
            self.states.append((groups, each))
            self._remembered[key] = past, newest
        return self._remembered[key]

    def _ungrouped(self, x: Name, groups: int, channels: int) -> Name:
        graph = self.graph
        if groups == 1:
            return graph.op("Squeeze", x, graph.constant([1]))
        return graph.reshape(graph.transpose(x, 0, 2, 1, 3), 0, 0, channels)
