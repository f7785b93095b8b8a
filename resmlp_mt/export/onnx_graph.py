"""An ONNX graph written node by node. States are two-dimensional: a row per token, C channels."""

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from resmlp_mt.export.runtime import WEIGHTS
from resmlp_mt.export.weights import Weights

OPSET, IR_VERSION = 20, 10  # ONNX Runtime 1.18 and later

Name = str  # of a value in the graph
Shape = Sequence[int | str]  # a string is a size that is known when the graph runs


class Graph:
    """Reads *weights* by name, from their file."""

    def __init__(self, name: str, weights: Weights):
        self.name, self.weights = name, weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._known: dict = {}
        self._renamed: dict[Name, Name] = {}
        self._count = 0
        self.stored: dict[Name, None] = {}  # the arrays that it reads, in order

    def input(self, name: Name, type_: str, shape: Shape) -> Name:
        self._inputs.append(_described(name, type_, shape))
        return name

    def output(self, value: Name, name: Name, type_: str, shape: Shape) -> None:
        """Make *value*, which a node computes, an output called *name*."""
        self._renamed[value] = name
        self._outputs.append(_described(name, type_, shape))

    def op(self, type_: str, *inputs: Name, outputs: int = 1, domain: str = "", **attributes):
        """Add a node, unless there is an equal one; returns the name of its output, or of each."""
        key = (type_, inputs, outputs, domain, tuple(sorted(attributes.items())))
        if key not in self._known:
            names = [self._new(type_) for _ in range(outputs)]
            self._nodes.append(helper.make_node(type_, inputs, names, domain=domain, **attributes))
            self._known[key] = names[0] if outputs == 1 else names
        return self._known[key]

    def constant(self, value, type_: str = "int64") -> Name:
        """A small array of the graph's own; equal ones are stored once."""
        value = np.asarray(value, type_)
        key = (type_, value.shape, value.tobytes())
        if key not in self._known:
            self._known[key] = name = self._new("constant")
            self._constants.append(numpy_helper.from_array(value, name))
        return self._known[key]

    def array(self, name: str) -> Name:
        """An array of the weights as float32."""
        self.stored[name] = None
        if self.weights[name].dtype == np.float16:
            return self.op("Cast", name, to=TensorProto.FLOAT)
        return name

    def _new(self, type_: str) -> Name:
        self._count += 1
        return f"{type_}.{self._count}"

    def reshape(self, x: Name, *shape: int) -> Name:
        """-1 is the rest."""
        return self.op("Reshape", x, self.constant(shape))

    def split(self, x: Name, parts: int, axis: int) -> list[Name]:
        """Equal parts."""
        if parts == 1:
            return [x]
        return self.op("Split", x, outputs=parts, axis=axis, num_outputs=parts)

    def concatenate(self, *parts: Name, axis: int) -> Name:
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=axis)

    def linear(self, x: Name, name: str) -> Name:
        """``x W + b``, R x C to R x D."""
        weight, scale, bias = f"{name}.weight", f"{name}.scale", f"{name}.bias"
        biases = [self.array(bias)] if bias in self.weights else []
        if scale in self.weights:  # int8 is the arithmetic, too
            inputs = (x, *map(self.array, (weight, scale)), "", *biases)
            return self.op("DynamicQuantizeMatMul", *inputs, domain="com.microsoft")
        return self.op("Gemm", x, self.array(weight), *biases)

    def norm(self, x: Name, name: str) -> Name:
        """A LayerNorm over channels; x where there is none, because an affine map is folded."""
        if f"{name}.scale" not in self.weights:
            return x
        both = self.array(f"{name}.scale"), self.array(f"{name}.shift")
        return self.op("LayerNormalization", x, *both, axis=-1, epsilon=1e-5)

    def build(self, offsets: dict[str, int]) -> bytes:
        """The file. *offsets* are those of the arrays in the file of the weights."""
        for node in self._nodes:
            for names in (node.input, node.output):
                names[:] = [self._renamed.get(name, name) for name in names]
        arrays = [_elsewhere(name, self.weights[name], offsets[name]) for name in self.stored]
        arrays += self._constants
        graph = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, arrays)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        model.producer_name = "resmlp_mt"
        return model.SerializeToString(deterministic=True)


def _described(name: Name, type_: str, shape: Shape) -> onnx.ValueInfoProto:
    number = helper.np_dtype_to_tensor_dtype(np.dtype(type_))
    return helper.make_tensor_value_info(name, number, list(shape))


def _elsewhere(name: Name, array: np.ndarray, offset: int) -> TensorProto:
    """An array that is in the file of the weights."""
    type_ = helper.np_dtype_to_tensor_dtype(array.dtype)
    tensor = TensorProto(name=name, data_type=type_, dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    places = {"location": WEIGHTS, "offset": str(offset), "length": str(array.nbytes)}
    for key, value in places.items():
        tensor.external_data.add(key=key, value=value)
    return tensor
