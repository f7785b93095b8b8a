"""An ONNX graph written node by node. States are two-dimensional: a row a word, C channels."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from resmlp_mt.errors import UserError
from resmlp_mt.model.lean import activation_function

OPSET, IR_VERSION = 20, 10  # ONNX Runtime 1.18 and later

Name = str  # of a value in the graph
Shape = Sequence[int | str]  # a string is a size that is known when the graph runs

_ACTIVATIONS: dict[Callable, tuple] = {
    activation_function("relu"): ("Relu", {}),
    activation_function("gelu"): ("Gelu", {}),
    activation_function("gelu_accurate"): ("Gelu", {"approximate": "tanh"}),
    activation_function("tanh"): ("Tanh", {}),
}


def array(tensor: Tensor) -> np.ndarray:
    """A parameter as float32."""
    return tensor.detach().float().numpy()


class Graph:
    """Linear layers are stored in *precision*: ``float32``, ``float16`` or ``int8``, where other
    matrices are float16. With *integers* int8 is their arithmetic, too."""

    def __init__(self, name: str, precision: str, integers: bool):
        self.name, self.precision, self.integers = name, precision, integers
        self._nodes: list[onnx.NodeProto] = []
        self._weights: dict[Name, TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._known: dict = {}
        self._renamed: dict[Name, Name] = {}
        # for the native step: stored arrays by a label that begins with the layer, and the function
        self.layer, self.used_activation = "", ""
        self._labels: dict[str, Name] = {}
        self._count = 0

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

    def constant(self, value, type_: str = "int64", label: str = "") -> Name:
        """A small array; equal ones are stored once."""
        value = np.asarray(value, type_)
        key = (type_, value.shape, value.tobytes())
        if key not in self._known:
            self._known[key] = self.store(value)
        return self._labelled(label, self._known[key])

    def matrix(self, value: np.ndarray, label: str = "") -> Name:
        """A large float32 array, stored as float16 in all precisions but float32."""
        if self.precision == "float32":
            return self._labelled(label, self.store(value))
        stored = self._labelled(label, self.store(value.astype(np.float16)))
        return self.op("Cast", stored, to=TensorProto.FLOAT)

    def store(self, value: np.ndarray) -> Name:
        name = self._new("weight")
        self._weights[name] = numpy_helper.from_array(np.array(value, order="C"), name)
        return name

    def _labelled(self, label: str, stored: Name) -> Name:
        if label:
            self._labels[self.layer + label] = stored
        return stored

    def _new(self, type_: str) -> Name:
        self._count += 1
        return f"{type_}.{self._count}"

    def reshape(self, x: Name, *shape: int) -> Name:
        """0 keeps a size, -1 is what is left."""
        return self.op("Reshape", x, self.constant(shape))

    def transpose(self, x: Name, *order: int) -> Name:
        return self.op("Transpose", x, perm=order)

    def split(self, x: Name, parts: int, axis: int) -> list[Name]:
        """Equal parts."""
        if parts == 1:
            return [x]
        return self.op("Split", x, outputs=parts, axis=axis, num_outputs=parts)

    def concatenate(self, *parts: Name, axis: int) -> Name:
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=axis)

    def linear(self, x: Name, layer: nn.Linear | None, label: str = "other") -> Name:
        """``x W' + b``, R x C to R x D; x if there is no layer."""
        if layer is None:
            return x
        bias = None if layer.bias is None else array(layer.bias)
        return self.product(x, self.store_columns(array(layer.weight).T), bias, label)

    def store_columns(self, weight: np.ndarray) -> list[Name]:
        """Store a C x D matrix, equal ones once; with int8 it has a scale for each column."""
        key = (weight.shape, weight.tobytes())
        if key not in self._known:
            int8 = self.precision == "int8"
            parts = quantize(weight) if int8 else [weight.astype(self.precision)]
            self._known[key] = [self.store(part) for part in parts]
        return self._known[key]

    def product(
        self, x: Name, stored: list[Name], bias: np.ndarray | None, label: str = "other"
    ) -> Name:
        """``x weight + bias``, R x C to R x D."""
        weight, *scale = stored
        for name, part in zip(stored, ("weight", "scale")):
            self._labelled(f"{label}.{part}", name)
        bias = [] if bias is None else [self.constant(bias, "float32", f"{label}.bias")]
        if scale and self.integers:
            inputs = (x, weight, *scale, "", *bias)
            return self.op("DynamicQuantizeMatMul", *inputs, domain="com.microsoft")
        if self.precision != "float32":
            weight = self.op("Cast", weight, to=TensorProto.FLOAT)
        if scale:
            weight = self.op("Mul", weight, *scale)
        return self.op("Gemm", x, weight, *bias)

    def norm(self, x: Name, norm: nn.Module | None, label: str = "other") -> Name:
        """A LayerNorm over channels. An affine map is folded, and has nothing left to do."""
        if not isinstance(norm, nn.LayerNorm):
            return x
        scale = self.constant(array(norm.weight), "float32", f"{label}.scale")
        shift = self.constant(array(norm.bias), "float32", f"{label}.shift")
        return self.op("LayerNormalization", x, scale, shift, axis=-1, epsilon=norm.eps)

    def activation(self, x: Name, function: Callable) -> Name:
        if function not in _ACTIVATIONS:
            raise UserError(
                "--activation-fn of this model: only relu, gelu, gelu_accurate and tanh can be "
                "exported: translate with resmlp-mt translate"
            )
        type_, attributes = _ACTIVATIONS[function]
        self.used_activation = " ".join([type_, *attributes.values()])
        return self.op(type_, x, **attributes)

    def build(self, metadata: dict[str, str]) -> bytes:
        """The file. *metadata* is kept in it."""
        for node in self._nodes:
            for names in (node.input, node.output):
                names[:] = [self._renamed.get(name, name) for name in names]
        weights = list(self._weights.values())
        graph = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, weights)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
        model.producer_name = "resmlp_mt"
        helper.set_model_props(model, metadata)
        return model.SerializeToString(deterministic=True)

    def labelled(self, file: bytes) -> dict[str, list]:
        """Type, shape and place in the file of the stored arrays."""
        arrays = ((label, self._weights[name]) for label, name in self._labels.items())
        return {
            label: [
                helper.tensor_dtype_to_np_dtype(stored.data_type).name,
                list(stored.dims),
                self.offset(stored.name, file),
            ]
            for label, stored in arrays
        }

    def offset(self, name: Name, file: bytes) -> int:
        """Where the numbers of a stored array begin in the file."""
        return file.index(self._weights[name].raw_data)


def _described(name: Name, type_: str, shape: Shape) -> onnx.ValueInfoProto:
    number = helper.np_dtype_to_tensor_dtype(np.dtype(type_))
    return helper.make_tensor_value_info(name, number, list(shape))


def quantize(weight: np.ndarray) -> tuple:
    """Symmetric int8 of a matrix and the float32 scale of each column.

    A CPU without VNNI adds the products of two neighbouring rows in 16 bits. An input is at most
    255, so that it saturates unless two neighbours sum to at most 128.
    """
    rows = np.pad(weight, ((0, len(weight) % 2), (0, 0)))
    largest = np.maximum(np.abs(weight).max(axis=0), np.abs(rows[::2] + rows[1::2]).max(axis=0))
    scale = np.maximum(largest, 1e-30) / 127
    return np.round(weight / scale).astype(np.int8), scale.astype(np.float32)
