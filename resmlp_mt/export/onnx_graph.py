"""An ONNX graph written node by node, with the layers that our models are made of."""

from typing import Callable, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from resmlp_mt.errors import UserError
from resmlp_mt.model.lean_training import activation_function

OPSET, IR_VERSION = 20, 10  # ONNX Runtime 1.18 and later

Name = str  # of a value in the graph
Shape = Sequence[Union[int, str]]  # a string is a size that is known when the graph runs

_TYPES = {
    "bool": TensorProto.BOOL,
    "float32": TensorProto.FLOAT,
    "int8": TensorProto.INT8,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
}
_ACTIVATIONS = {
    activation_function("relu"): ("Relu", {}),
    activation_function("gelu"): ("Gelu", {}),
    activation_function("gelu_accurate"): ("Gelu", {"approximate": "tanh"}),
    activation_function("tanh"): ("Tanh", {}),
}


def array(tensor: Tensor) -> np.ndarray:
    """A parameter as float32."""
    return tensor.detach().float().numpy()


class Graph:
    """
    Args:
        name: of the graph.
        precision: ``float32``, ``float16`` or ``int8``: how matrices are stored. int8 is also the
            arithmetic of the linear layers.
    """

    def __init__(self, name: str, precision: str):
        self.name, self.precision = name, precision
        self._nodes: List[onnx.NodeProto] = []
        self._weights: List[TensorProto] = []
        self._inputs: List[onnx.ValueInfoProto] = []
        self._outputs: List[onnx.ValueInfoProto] = []
        self._constants: Dict[tuple, Name] = {}
        self._known: dict = {}
        self._renamed: Dict[Name, Name] = {}
        self._count = 0

    # values

    def input(self, name: Name, kind: str, shape: Shape) -> Name:
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[kind], list(shape)))
        return name

    def optional(self, name: Name, value: np.ndarray, shape: Shape) -> Name:
        """An input that is *value* unless it is given."""
        self._weights.append(numpy_helper.from_array(value, name))
        return self.input(name, str(value.dtype), shape)

    def output(self, value: Name, name: Name, kind: str, shape: Shape) -> None:
        """Give *value*, which a node has made, out of the graph under another name."""
        self._renamed[value] = name
        self._outputs.append(helper.make_tensor_value_info(name, _TYPES[kind], list(shape)))

    def op(self, kind: str, *inputs: Name, outputs: int = 1, domain: str = "", **attributes):
        """Add a node; returns the name of its output, or of each. What is there already is not
        computed again."""
        key = (kind, inputs, outputs, domain, tuple(sorted(attributes.items())))
        if key not in self._known:
            names = [self._new(kind) for _ in range(outputs)]
            self._nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
            self._known[key] = names[0] if outputs == 1 else names
        return self._known[key]

    def either(self, condition: Name, first: Callable[[], Name], second: Callable[[], Name]):
        """What *first* computes if *condition* holds, else what *second* does: both add nodes."""
        branches = {}
        for name, compute in (("then_branch", first), ("else_branch", second)):
            outside, known, self._nodes = self._nodes, dict(self._known), []
            value = helper.make_empty_tensor_value_info(compute())
            branches[name] = helper.make_graph(self._nodes, name, [], [value])
            self._nodes, self._known = outside, known
        name = self._new("If")
        self._nodes.append(helper.make_node("If", [condition], [name], **branches))
        return name

    def constant(self, value, kind: str = "int64") -> Name:
        """A small array; equal ones are stored once."""
        value = np.asarray(value, kind)
        key = (kind, value.shape, value.tobytes())
        if key not in self._constants:
            self._constants[key] = self._store(value)
        return self._constants[key]

    def matrix(self, value: Tensor) -> Name:
        """A large float array, in float32 when the graph runs."""
        if self.precision == "float32":
            return self._store(array(value))
        # the scale of int8 is for linear layers, whose rows are alike
        return self.cast(self._store(array(value).astype(np.float16)), "float32")

    def _store(self, value: np.ndarray) -> Name:
        name = self._new("weight")
        self._weights.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def _new(self, kind: str) -> Name:
        self._count += 1
        return f"{kind}.{self._count}"

    # operators that take constants

    def reshape(self, x: Name, *shape: int) -> Name:
        """0 keeps a size, -1 is what is left."""
        return self.op("Reshape", x, self.constant(shape))

    def transpose(self, x: Name, *order: int) -> Name:
        return self.op("Transpose", x, perm=order)

    def cast(self, x: Name, kind: str) -> Name:
        return self.op("Cast", x, to=_TYPES[kind])

    def size(self, x: Name, axis: int) -> Name:
        """int64, 1."""
        return self.op("Shape", x, start=axis, end=axis + 1)

    def add(self, x: Name, value) -> Name:
        return self.op("Add", x, self.constant(value, "float32"))

    def multiply(self, x: Name, value) -> Name:
        return self.op("Mul", x, self.constant(value, "float32"))

    def concatenate(self, *parts: Name, axis: int = 0) -> Name:
        return self.op("Concat", *parts, axis=axis)

    def slice(self, x: Name, start: Name, end: Name, axis: int) -> Name:
        return self.op("Slice", x, start, end, self.constant([axis]))

    # layers

    def linear(self, x: Name, layer: nn.Linear) -> Name:
        """``x W' + b``, over the last axis of *x*."""
        bias = None if layer.bias is None else array(layer.bias)
        return self.product(x, array(layer.weight).T, bias)

    def product(self, x: Name, weight: np.ndarray, bias: Optional[np.ndarray]) -> Name:
        """``x weight + bias``: ... x C to ... x D, *weight* C x D."""
        if self.precision == "int8":
            return self._quantized_product(x, weight, bias)
        if self.precision == "float16":
            stored = self.cast(self._store(weight.astype(np.float16)), "float32")
        else:
            stored = self._store(weight)
        y = self.op("MatMul", x, stored)
        return y if bias is None else self.add(y, bias)

    def _quantized_product(self, x: Name, weight: np.ndarray, bias: Optional[np.ndarray]) -> Name:
        """Weights of 8 bits with a scale for each output channel."""
        rounded, scale = quantize(weight, axis=0)
        bias = [] if bias is None else [self.constant(bias, "float32")]
        return self.integer_product(x, self._store(rounded), self._store(scale), *bias)

    def integer_product(self, x: Name, weight: Name, scale: Name, *bias: Name) -> Name:
        """``x weight scale + bias`` in integers; *x* is quantized as it comes."""
        inputs = (x, weight, scale, "", *bias)
        return self.op("DynamicQuantizeMatMul", *inputs, domain="com.microsoft")

    def look_up(self, table: np.ndarray, words: Name) -> Name:
        """Rows of a V x C table: ... to ... x C."""
        if self.precision == "int8":
            rounded, scale = quantize(table, axis=1)
            rows = self.op("Gather", self._store(rounded), words)
            scales = self.op("Gather", self._store(scale[:, None]), words)
            return self.op("Mul", self.cast(rows, "float32"), scales)
        if self.precision == "float16":
            rows = self.op("Gather", self._store(table.astype(np.float16)), words)
            return self.cast(rows, "float32")
        return self.op("Gather", self._store(table), words)

    def layer_norm(self, x: Name, norm: nn.LayerNorm) -> Name:
        """Over the last axis."""
        scale, shift = (self.constant(array(p), "float32") for p in (norm.weight, norm.bias))
        return self.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=norm.eps)

    def activation(self, x: Name, function: Callable) -> Name:
        """
        Raises:
            UserError: for one that is not among the operators of ONNX.
        """
        if function not in _ACTIVATIONS:
            raise UserError(
                "--activation-fn of this model: only relu, gelu, gelu_accurate and tanh can be "
                "exported: translate with resmlp-mt translate"
            )
        kind, attributes = _ACTIVATIONS[function]
        return self.op(kind, x, **attributes)

    def build(self, metadata: Dict[str, str]) -> bytes:
        """The file. *metadata* is kept in it."""
        for node in self._nodes:
            for names in (node.input, node.output):
                names[:] = [self._renamed.get(name, name) for name in names]
        graph = helper.make_graph(
            self._nodes, self.name, self._inputs, self._outputs, self._weights
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        model.producer_name = "resmlp_mt"
        helper.set_model_props(model, metadata)
        return model.SerializeToString(deterministic=True)


def quantize(weight: np.ndarray, axis: int) -> Tuple[np.ndarray, np.ndarray]:
    """Symmetric int8 with a scale for each slice along the other axis.

    Args:
        weight: a matrix.
        axis: the axis that shares a scale.

    Returns:
        int8 of the same shape; float32, one for each slice.
    """
    scale = np.maximum(np.abs(weight).max(axis=axis), 1e-30) / 127
    rounded = np.round(weight / np.expand_dims(scale, axis)).astype(np.int8)
    return rounded, scale.astype(np.float32)
