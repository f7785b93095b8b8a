"""What token mixing reads: all positions of a sentence, or the past of the newest word.

The two classes have the same methods, so that each kind of mixing is written once.
"""

from typing import Dict, List, Set, Tuple

import numpy as np
import torch
from torch import Tensor, nn

from resmlp_mt.export.onnx_graph import Graph, Name
from resmlp_mt.model.token_mixing import ToeplitzTokenMixing, TokenMixing


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
    runtime fills. ``reads`` says which of them are in the past of a hypothesis, so that no slot
    moves when beams do.

    Args:
        graph: of one decoding step, which gets these inputs: ``position`` (1), ``reads`` (B x J x
            n, 0 or 1), ``slot_positions`` (B x n), and for each state i ``past.i``, G x B x n x
            C / G. The newest inputs are the outputs ``new.i``, G x B x J x C / G. ``row.i`` (G x B
            x J x n) and ``own.i`` are what each hypothesis's row of A has for the slots and for
            the newest position, for those who look at the model.
        decoder: whose mixing matrices there will be.

    Attributes:
        states: G and C / G of each state.
    """

    def __init__(self, graph: Graph, decoder: nn.Module):
        self.graph = graph
        self.position = graph.input("position", "int32", [1])
        self.reads = graph.input("reads", "float32", ["sentences", "rows", "slots"])
        self.slots = graph.input("slot_positions", "int32", ["sentences", "slots"])
        self.states: List[Tuple[int, int]] = []
        self._remembered: Dict[tuple, Tuple[Name, Name]] = {}
        self._shown: Set[Name] = set()
        matrices = [m for m in decoder.modules() if isinstance(m, TokenMixing)]
        self._rows = self._newest_rows(matrices) if matrices else {}

    def without_padding(self, x: Name) -> Name:
        """*x*: a decoder reads no padding."""
        return x

    def at_positions(self, values: Tensor) -> Name:
        """The row of N x C values that the newest word has, 1 x C."""
        return self.graph.op("Gather", self.graph.matrix(values), self.position)

    def matrix_product(self, x: Name, mixing: TokenMixing) -> Name:
        """``A x`` at the newest position."""
        graph, groups = self.graph, mixing.heads
        past, newest = self._remember(x, groups, mixing.channels)
        row, own = self._rows[mixing]
        self._show(past, row, own, groups)
        mixed = graph.op("Add", graph.op("MatMul", row, past), graph.op("Mul", newest, own))
        if groups == 1:
            return graph.op("Squeeze", mixed, graph.constant([0]))
        return graph.reshape(graph.transpose(mixed, 1, 2, 0, 3), 0, 0, mixing.channels)

    def _newest_rows(self, matrices: List[TokenMixing]) -> Dict[TokenMixing, Tuple[Name, Name]]:
        """The newest row of each A, over the slots (G x B x J x n) and over itself (G x 1 x 1 x 1).

        Those of all layers are looked up together: a lookup takes a small model as long as a
        product.
        """
        graph = self.graph
        tables, slots, newest = self._tables(matrices)
        of_slots = graph.op("Gather", tables, slots, axis=1)  # all G x B x n
        of_slots = graph.op("Unsqueeze", of_slots, graph.constant([2]))
        of_slots = graph.op("Mul", of_slots, self.reads)
        own = graph.reshape(graph.op("Gather", tables, newest, axis=1), -1, 1, 1, 1)
        if len(matrices) == 1:
            return {matrices[0]: (of_slots, own)}
        sizes = graph.constant([matrix.heads for matrix in matrices])
        parts = (
            graph.op("Split", x, sizes, outputs=len(matrices), axis=0) for x in (of_slots, own)
        )
        return dict(zip(matrices, zip(*parts)))

    def _tables(self, matrices: List[TokenMixing]) -> Tuple[Name, Name, Name]:
        """The weights of all A, one below the other, and where in a row those are of the newest
        position over the slots, and over itself."""
        graph = self.graph
        if isinstance(matrices[0], ToeplitzTokenMixing):
            distance = graph.op("Sub", self.position, self.slots)
            weights = torch.cat([matrix.weight.detach() for matrix in matrices])
            return graph.matrix(weights), distance, graph.constant([0], "int32")
        # the lower triangle row after row: row t begins at t (t + 1) / 2
        row, column = (torch.from_numpy(x) for x in np.tril_indices(matrices[0].positions))
        weights = torch.cat([matrix.weight.detach()[:, row, column] for matrix in matrices])
        one, two = graph.constant(1, "int32"), graph.constant(2, "int32")
        begin = graph.op("Mul", self.position, graph.op("Add", self.position, one))
        begin = graph.op("Div", begin, two)
        slots = graph.op("Add", begin, self.slots)
        return graph.matrix(weights), slots, graph.op("Add", begin, self.position)

    def _show(self, past: Name, row: Name, own: Name, groups: int) -> None:
        """Make the row an output. Where two A read the same state, it is that of the first."""
        if past not in self._shown:
            self._shown.add(past)
            number = past.split(".")[1]
            shape = [groups, "sentences", "rows", "slots"]
            self.graph.output(row, f"row.{number}", "float32", shape)
            self.graph.output(own, f"own.{number}", "float32", [groups, 1, 1, 1])

    def taps(self, x: Name, count: int, channels: int) -> Name:
        """What the newest position reads of the *count* last ones: B x J x C to B x J x (count C),
        the oldest first; zero before the first position."""
        graph = self.graph
        if count == 1:
            return x
        past, _ = self._remember(x, 1, channels)
        back = graph.constant(np.arange(count - 1, 0, -1)[:, None, None], "int32")
        wanted = graph.op("Sub", self.position, back)  # K - 1 x 1 x 1
        chosen = graph.cast(graph.op("Equal", wanted, self.slots), "float32")
        chosen = graph.op("Unsqueeze", chosen, graph.constant([2]))
        found = graph.op("MatMul", graph.op("Mul", chosen, self.reads), past)  # K - 1 x B x J x C
        found = graph.reshape(graph.transpose(found, 1, 2, 0, 3), 0, 0, (count - 1) * channels)
        return graph.concatenate(found, x, axis=2)

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
            past = graph.input(f"past.{number}", "float32", [groups, "sentences", "slots", each])
            if groups == 1:
                newest = graph.op("Unsqueeze", x, graph.constant([0]))
            else:
                newest = graph.transpose(graph.reshape(x, 0, 0, groups, each), 2, 0, 1, 3)
            graph.output(newest, f"new.{number}", "float32", [groups, "sentences", "rows", each])
            self.states.append((groups, each))
            self._remembered[key] = past, newest
        return self._remembered[key]
