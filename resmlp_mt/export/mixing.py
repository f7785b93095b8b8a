"""Token mixing as ONNX operators, over a whole sentence and for the newest word of a hypothesis."""

from typing import NamedTuple

import numpy as np
from torch import nn

from resmlp_mt.errors import UserError
from resmlp_mt.export.onnx_graph import Graph, Name, Shape, array
from resmlp_mt.model.inference import FoldedConvTokenMixing, FoldedTokenMixing
from resmlp_mt.model.mixing import (
    ConvTokenMixing,
    GatedTokenMixing,
    NoTokenMixing,
    ToeplitzTokenMixing,
    TokenMixing,
)


class Matrix(NamedTuple):
    """``A (scale x + shift) + offset``; A is H x N x N, or Toeplitz, over C channels."""

    mixing: TokenMixing
    scale: np.ndarray  # C
    offset: np.ndarray  # N x H x C / H, or N x H x 1
    shift: np.ndarray | None = None  # C; in encoders


def matrix_of(mixing: nn.Module) -> Matrix | None:
    """What a folded *mixing* does over positions; None for a convolution."""
    if type(mixing) in (ConvTokenMixing, FoldedConvTokenMixing):
        return None
    if type(mixing) is GatedTokenMixing:
        inner = mixing.toeplitz
        bias = np.zeros((inner.heads, inner.positions), np.float32)
        bias = bias if inner.bias is None else array(inner.bias)
        return Matrix(inner, np.ones(inner.channels, np.float32), bias.T[..., None])
    inner = getattr(mixing, "mixing", mixing)
    # a subclass has a matrix of its own, which the runtime does not know
    if type(mixing) is FoldedTokenMixing and type(inner) in (TokenMixing, ToeplitzTokenMixing):
        offset = array(mixing.offset).reshape(inner.positions, inner.heads, -1)
        shift = None if mixing.shift is None else array(mixing.shift)
        return Matrix(inner, array(mixing.scale), offset, shift)
    raise UserError(
        f"the token mixing {type(inner).__name__} cannot be exported, only linear, toeplitz, "
        "gated, conv and none: translate with resmlp-mt translate"
    )


def mixing_branch(graph: Graph, x: Name, branch: nn.Module, number: int, sequence) -> Name:
    """``Z = X + Aff(A Aff(X))`` of layer *number*; *sequence* is one of the two classes below."""
    if isinstance(branch, NoTokenMixing):
        return x
    h = graph.norm(x, branch.pre, "mixing_norm")
    mixing, matrix = branch.mixing, matrix_of(branch.mixing)
    if matrix is None:
        conv = getattr(mixing, "mixing", mixing)
        y = graph.linear(sequence.taps(h, conv, number), conv.taps, "taps")
        if conv is not mixing:
            y = graph.op("Add", y, sequence.inside_bias(array(mixing.inside_bias)))
    elif isinstance(mixing, GatedTokenMixing):
        value_gate = graph.linear(h, mixing.value_gate, "value_gate")
        value, gate = graph.split(value_gate, 2, axis=1)
        y = sequence.mix(value, matrix, number)
        y = graph.op("Mul", y, graph.activation(gate, mixing.activation))
        y = graph.linear(y, mixing.output, "output")
    else:
        y = sequence.mix(h, matrix, number)
    return graph.op("Add", x, y)


class WholeSentence:
    """All positions of B sentences of S words, padded on the right; states are (B S) x C.

    *inside* is B x S x 1 x 1: 1 at words, 0 at padding.
    """

    def __init__(self, graph: Graph, inside: Name):
        self.graph, self._inside = graph, inside
        self.length = graph.op("Shape", inside, start=1, end=2)

    def reshape(self, x: Name, *sizes: int) -> Name:
        """To B x S x the *sizes*."""
        graph = self.graph
        parts = graph.constant([-1]), self.length, graph.constant(sizes)
        return graph.op("Reshape", x, graph.concatenate(*parts, axis=0))

    def at_positions(self, values: np.ndarray) -> Name:
        """The rows of N x ... values that the sentence has, S x ..."""
        graph = self.graph
        first, axis = graph.constant([0]), graph.constant([0])
        return graph.op("Slice", graph.matrix(values), first, self.length, axis)

    def mix(self, x: Name, matrix: Matrix, number: int) -> Name:
        """``A x`` with what folding puts around it."""
        graph, mixing = self.graph, matrix.mixing
        if (matrix.scale != 1).any():
            x = graph.op("Mul", x, graph.constant(matrix.scale, "float32"))
        if matrix.shift is not None:
            x = graph.op("Add", x, graph.constant(matrix.shift, "float32"))
        x = self.reshape(x, mixing.heads, mixing.channels // mixing.heads)
        x = graph.op("Mul", x, self._inside)
        x = graph.op("MatMul", self._matrix(mixing), graph.transpose(x, 0, 2, 1, 3))
        x = graph.transpose(x, 0, 2, 1, 3)
        x = graph.op("Add", x, self.at_positions(matrix.offset))
        return graph.reshape(x, -1, mixing.channels)

    def _matrix(self, mixing: TokenMixing) -> Name:
        """A, H x S x S."""
        graph, weight = self.graph, self.graph.matrix(array(mixing.weight))
        if not isinstance(mixing, ToeplitzTokenMixing):
            ends = graph.concatenate(self.length, self.length, axis=0)
            return graph.op("Slice", weight, graph.constant([0, 0]), ends, graph.constant([1, 2]))
        # row t and column s read the weight of the distance t - s
        zero, one = graph.constant(0), graph.constant(1)
        column = graph.op("Range", zero, graph.op("Squeeze", self.length), one)
        row = graph.op("Unsqueeze", column, graph.constant([1]))
        row = graph.op("Add", row, graph.constant(mixing.positions - 1))
        return graph.op("Gather", weight, graph.op("Sub", row, column), axis=1)

    def taps(self, x: Name, mixing: ConvTokenMixing, number: int) -> Name:
        """What each position reads of itself and its neighbours, (B S) x (K C)."""
        x = self.graph.op("Mul", self.reshape(x, 1, mixing.channels), self._inside)
        x = self._taps(x, mixing.kernel_size)
        return self.graph.reshape(x, -1, mixing.kernel_size * mixing.channels)

    def inside_bias(self, bias: np.ndarray) -> Name:
        """The sum of the rows of a K x C *bias* whose taps fall into the sentence, (B S) x C."""
        graph, (taps, channels) = self.graph, bias.shape
        inside = self._taps(self._inside, taps)
        bias = graph.op("MatMul", inside, graph.constant(bias, "float32"))
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


class NewestWord:
    """The newest word of each of J hypotheses of B sentences; states are (B J) x C.

    The runtime keeps what earlier words have put into the mixing sublayers of all L layers in n
    slots a sentence, which stay where they are when beams move. ``ages`` (B x J x n) says how far
    back the word of a slot is, 0 where it is not in the past of a hypothesis. ``past`` is G x B x n
    x D, with G = L H and D = C / H for matrices, G = L and D = C for convolutions. The output
    ``new`` is (B J) x (L C). What the past adds in all layers is computed at once.
    """

    def __init__(self, graph: Graph, branches: list[nn.Module]):
        self.graph = graph
        self.position = graph.input("position", "int32", [1])
        self.memory: list[int] | None = None  # G and D
        self.window = 0  # how many past words a convolution reads; 0: all of them
        self.new: list[Name] = []
        mixings = [branch.mixing for branch in branches if not isinstance(branch, NoTokenMixing)]
        matrices = [matrix_of(mixing) for mixing in mixings]
        if matrices and matrices[0] is not None:
            self._begin_matrices(matrices)
        elif mixings:
            self._begin_taps([getattr(mixing, "mixing", mixing) for mixing in mixings])

    def at_positions(self, values: np.ndarray, label: str) -> Name:
        """The row of N x ... values that the newest word has, 1 x ..."""
        return self.graph.op("Gather", self.graph.matrix(values, label), self.position)

    def _inputs(self, groups: int, channels: int) -> tuple:
        self.memory, graph = [groups, channels], self.graph
        shape: Shape = [groups, "sentences", "slots", channels]
        ages = graph.input("ages", "int32", ["sentences", "rows", "slots"])
        return ages, graph.input("past", "float32", shape)

    def _begin_matrices(self, matrices: list[Matrix]) -> None:
        graph, layers, first = self.graph, len(matrices), matrices[0].mixing
        ages, past = self._inputs(layers * first.heads, first.channels // first.heads)
        weights = np.concatenate([array(matrix.mixing.weight) for matrix in matrices])
        scale = np.concatenate([matrix.scale for matrix in matrices]).reshape(len(weights), -1)
        offset = np.concatenate([matrix.offset for matrix in matrices], axis=1)
        if isinstance(first, ToeplitzTokenMixing):
            own, places = (weights[:, :1] * scale).reshape(layers, -1), ages
            self._own = [graph.constant(x, "float32", f"{i}.own") for i, x in enumerate(own)]
            weights[:, 0] = 0
        else:
            # the row of each position one after the other, from its newest word back
            row, age = np.tril_indices(first.positions)
            own = np.diagonal(weights, axis1=1, axis2=2).T[..., None]
            own = self.at_positions(own, "mixing.own")
            own = graph.op("Mul", own, graph.constant(scale, "float32", "mixing.scale"))
            self._own = graph.split(graph.reshape(own, 1, -1), layers, axis=1)
            weights = np.where(age == 0, 0, weights[:, row, row - age])
            start = graph.constant(np.flatnonzero(age == 0), "int32")
            places = graph.op("Add", ages, graph.op("Gather", start, self.position))
        weights = graph.matrix(weights, "mixing.weights")
        rows = graph.op("Gather", weights, places, axis=1)  # G x B x J x n
        sums = graph.transpose(graph.op("MatMul", rows, past), 1, 2, 0, 3)
        if (scale != 1).any():
            sums = graph.op("Mul", sums, graph.constant(scale, "float32", "mixing.scale"))
        sums = graph.op("Add", sums, self.at_positions(offset, "mixing.offset"))
        self._past = graph.split(graph.reshape(sums, -1, scale.size), layers, axis=1)

    def _begin_taps(self, mixings: list[ConvTokenMixing]) -> None:
        graph, first = self.graph, mixings[0]
        self.window = back = first.kernel_size - 1
        if not back:
            return
        ages, past = self._inputs(len(mixings), first.channels)
        ages = graph.op("Unsqueeze", ages, graph.constant([2]))  # B x J x 1 x n
        wanted = graph.constant(np.arange(back, 0, -1)[:, None], "int32")  # the oldest first
        chosen = graph.op("Cast", graph.op("Equal", ages, wanted), to=1)
        chosen = graph.op("Unsqueeze", chosen, graph.constant([0]))
        past = graph.op("Unsqueeze", past, graph.constant([2]))  # L x B x 1 x n x C
        found = graph.transpose(graph.op("MatMul", chosen, past), 1, 2, 0, 3, 4)
        found = graph.reshape(found, -1, len(mixings) * back * first.channels)
        self._past = graph.split(found, len(mixings), axis=1)

    def mix(self, x: Name, matrix: Matrix, number: int) -> Name:
        """``A x`` with what folding puts around it."""
        self.new.append(x)
        own = self.graph.op("Mul", x, self._own[number])
        return self.graph.op("Add", own, self._past[number])

    def taps(self, x: Name, mixing: ConvTokenMixing, number: int) -> Name:
        """What the newest position reads of the K last ones, (B J) x (K C), the oldest first."""
        if not self.memory:
            return x
        self.new.append(x)
        return self.graph.concatenate(self._past[number], x, axis=1)

    def inside_bias(self, bias: np.ndarray) -> Name:
        """The sum of the rows of a K x C *bias* whose taps fall into the sentence, 1 x C."""
        graph, sums = self.graph, bias[::-1].cumsum(0)
        place = graph.op("Min", self.position, graph.constant([len(bias) - 1], "int32"))
        return graph.op("Gather", graph.matrix(sums, "inside_bias"), place)
