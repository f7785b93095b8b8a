"""The decoding step and the beam search of a folder of `resmlp-mt export`, in C++.

runtime.py uses it where it is asked to. Arrays are laid out here, once, as step.cpp reads them.
"""

import ctypes
import os
from ctypes import POINTER, c_char_p, c_double, c_int, c_int32, c_void_p
from pathlib import Path

import numpy as np

ACTIVATIONS = ("Relu", "Gelu", "Gelu tanh", "Tanh")
NO_MIXING, MATRIX, GATED, CONVOLUTION = range(4)
WIDTH, PANEL, EOS = 32, 16, 2


def _fields(type_, names: str) -> list:
    return [(name, type_) for name in names.split()]


class Linear(ctypes.Structure):
    _fields_ = [
        *_fields(c_int32, "inputs outputs"),
        *_fields(c_void_p, "integers floats scale bias sums"),
    ]


class Norm(ctypes.Structure):
    _fields_ = [("size", c_int32), *_fields(c_void_p, "scale shift")]


class Layer(ctypes.Structure):
    _fields_ = [
        *_fields(Norm, "mixing_norm attention_norm feed_forward_norm"),
        *_fields(Linear, "mixing_in mixing_out query attended first second"),
        *_fields(c_void_p, "own scale offset inside_bias"),
    ]


class Model(ctypes.Structure):
    _fields_ = [
        *_fields(c_int32, "words channels width mixing heads distances triangular window"),
        *_fields(c_int32, "activation layer_count"),
        *_fields(c_void_p, "embedding_integers embedding embedding_scale positions"),
        *_fields(c_void_p, "weights alpha layers"),
        *_fields(Norm, "first_norm last_norm"),
        ("last", Linear),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        *_fields(c_int32, "sentences length beam limit heads"),
        ("lenpen", c_double),
        *_fields(c_void_p, "lengths encoded counts scores sizes words"),
    ]


_library = ctypes.CDLL(str(next(Path(__file__).parent.glob("libresmlp_mt_step.*"))))
_library.resmlp_kernel.argtypes, _library.resmlp_kernel.restype = [c_char_p], c_void_p
_library.resmlp_search.argtypes = [c_void_p, POINTER(Model), POINTER(Request), c_int]


class NativeSearch:
    """The step and the search of a model.

    *tensors*: the labelled arrays of the step, *embedding*: V x C, int8 or float32, *scale*: V x 1,
    of its rows. RESMLP_MT_KERNEL in the environment may name a kernel: amx, avx512, avx2, neon,
    plain.
    """

    def __init__(
        self,
        tensors: dict[str, np.ndarray],
        embedding: np.ndarray,
        scale: np.ndarray,
        config: dict,
    ):
        kernel = os.environ.get("RESMLP_MT_KERNEL", "")
        self._kernel = _library.resmlp_kernel(kernel.encode())
        if not self._kernel:
            raise ValueError(f"this CPU has no kernel {kernel!r}: change RESMLP_MT_KERNEL")
        self._layout, self._positions = Layout(tensors), config["positions"][1]
        self._model = self._layout.model({**config, **config["native"]}, embedding, scale)

    def search(
        self,
        encoded: dict[str, np.ndarray],
        beam: int,
        lenpen: float,
        limit: int,
        threads: int = 1,
    ) -> list[list[tuple[float, np.ndarray]]]:
        """The hypotheses of each sentence, the best first: score and words.

        *encoded*: ``keys.l`` and ``values.l`` of each layer, B x H x S x D, and ``lengths``;
        *limit*: of the words.
        """
        model = self._model
        lengths = np.ascontiguousarray(encoded["lengths"], np.int32)
        count, length = len(lengths), int(lengths.max())
        names = [f"{name}.{i}" for i in range(model.layer_count) for name in ("keys", "values")]
        read, heads = [encoded.get(name) for name in names], int(encoded["keys.0"].shape[1])
        shape = (count, heads, length, model.channels // max(1, heads))
        for name, x in zip(names, read):
            fits = x is not None and x.shape == shape and heads * shape[3] == model.channels
            _check(fits and x.dtype == np.float32, name)
        _check(lengths.min() > 0 and 0 <= limit < self._positions, "length")
        _check(1 <= beam <= (model.words - 1) // 2, "beam")
        # the step reads keys D x S, with S padded
        read[::2] = [widened(keys.swapaxes(2, 3)) for keys in read[::2]]
        read = [np.ascontiguousarray(x) for x in read]
        counts, sizes = np.zeros(count, np.int32), np.zeros((count, beam), np.int32)
        scores = np.zeros((count, beam), np.float32)
        words = np.empty((count, beam, limit), np.int32)
        pointers = (c_void_p * len(read))(*(x.ctypes.data for x in read))
        arrays = [x.ctypes.data for x in (counts, scores, sizes, words)]
        places = lengths.ctypes.data, ctypes.addressof(pointers)
        request = Request(count, length, beam, limit, heads, lenpen, *places, *arrays)
        if _library.resmlp_search(self._kernel, self._model, request, threads):
            raise MemoryError("the search ran out of memory")
        found = [
            [(float(scores[i, j]), words[i, j, : sizes[i, j]].copy()) for j in range(counts[i])]
            for i in range(count)
        ]
        return [sorted(hypotheses, key=lambda one: -one[0]) for hypotheses in found]


class Layout:
    """Arrays as step.cpp reads them, which it keeps alive."""

    def __init__(self, tensors: dict[str, np.ndarray]):
        self._tensors, self._kept = dict(tensors), []

    def model(self, config: dict, embedding: np.ndarray, scale: np.ndarray) -> Model:
        channels, layers = config["channels"][1], config["layers"][1]
        words, positions = config["vocabulary"][1], config["positions"][1]
        for size in (channels, layers, words - EOS, positions, config["window"] + 1):
            _check(type(size) is int and 0 < size < 1 << 24, "config.json")
        _check(embedding.shape == (words, channels) and scale.shape == (words, 1), "embedding")
        model = Model(words, channels, len(widened(np.zeros(channels))))
        model.activation, model.layer_count = ACTIVATIONS.index(config["activation"]), layers
        if embedding.dtype == np.int8:
            model.embedding_integers = self._keep(embedding, np.int8)
        else:
            model.embedding = self._keep(embedding)
        model.embedding_scale = self._keep(scale)
        if self._has("positions"):
            rows = self._take("positions", None, channels)[:positions]
            _check(len(rows) == positions, "positions")
            model.positions = self._keep(widened(rows))
        model.first_norm = self._norm("first_norm", channels)
        self._mixing(model, positions)
        if self._has("0.taps.weight"):
            model.mixing, model.window = CONVOLUTION, config["window"]
        found = [self._layer(model, str(number)) for number in range(layers)]
        self._kept.append((Layer * layers)(*found))
        model.layers = ctypes.addressof(self._kept[-1])
        model.last_norm = self._norm("last_norm", channels)
        if self._has("alpha"):
            model.alpha = self._keep(widened(self._take("alpha", channels)))
        model.last = self._linear("last", channels, words, filler=-np.inf)
        if self._tensors:
            raise ValueError(f"it does not know {min(self._tensors)}: translate without native")
        return model

    def _mixing(self, model: Model, positions: int) -> None:
        if not self._has("mixing.weights"):
            return
        model.mixing = GATED if self._has("0.value_gate.weight") else MATRIX
        layers, channels = model.layer_count, model.channels
        weights = self._take("mixing.weights", None, None)
        groups, model.distances = weights.shape
        offset = self._take("mixing.offset", None, groups, None)
        known, _, _ = offset.shape
        model.heads, model.triangular = groups // layers, self._has("mixing.own")
        each = channels // max(1, model.heads)
        distances = known * (known + 1) // 2 if model.triangular else known
        fits = distances == model.distances and known >= positions
        _check(fits and model.heads * layers == groups and each * model.heads == channels, "mixing")
        model.weights = self._keep(weights)
        scale = np.ones((groups, each), np.float32)
        if self._has("mixing.scale"):
            scale = self._take("mixing.scale", groups, each)
        by_layer = (-1, layers, channels)
        self._mixes = {"scale": scale, "offset": np.broadcast_to(offset, (known, groups, each))}
        if model.triangular:
            self._mixes["own"] = self._take("mixing.own", known, groups, 1) * scale
        self._mixes = {name: x.reshape(by_layer)[:positions] for name, x in self._mixes.items()}

    def _layer(self, model: Model, number: str) -> Layer:
        layer, channels = Layer(), model.channels
        layer.mixing_norm = self._norm(f"{number}.mixing_norm", channels)
        if model.mixing == GATED:
            name = f"{number}.value_gate"
            layer.mixing_in = self._linear(name, channels, 2 * channels, parts=(1, 2))
            layer.mixing_out = self._linear(f"{number}.output", channels, channels)
        if model.mixing in (MATRIX, GATED):
            for name, values in self._mixes.items():
                setattr(layer, name, self._keep(widened(values[:, int(number)])))
            if not model.triangular:
                layer.own = self._keep(widened(self._take(f"{number}.own", channels)))
        if model.mixing == CONVOLUTION:
            taps, name = model.window + 1, f"{number}.taps"
            parts = taps, 1
            layer.mixing_in = self._linear(name, taps * channels, channels, parts)
            if self._has(f"{number}.inside_bias"):
                bias = self._take(f"{number}.inside_bias", taps, channels)
                layer.inside_bias = self._keep(widened(bias))
        layer.attention_norm = self._norm(f"{number}.attention_norm", channels)
        layer.query = self._linear(f"{number}.query", channels, channels)
        layer.attended = self._linear(f"{number}.attended", channels, channels)
        layer.feed_forward_norm = self._norm(f"{number}.feed_forward_norm", channels)
        hidden = self._outputs(f"{number}.first")
        layer.first = self._linear(f"{number}.first", channels, hidden)
        layer.second = self._linear(f"{number}.second", hidden, channels)
        return layer

    def _linear(
        self, name: str, inputs: int, outputs: int, parts=(1, 1), filler: float = 0
    ) -> Linear:
        """Panels of 16 columns, with the bytes of four inputs side by side."""
        weight = self._take(f"{name}.weight", inputs, outputs)
        weight = widened(widened(weight, parts[1]).T, parts[0]).T
        layer = Linear(*weight.shape)
        panels = weight.reshape(-1, weight.shape[1] // PANEL, PANEL)
        if weight.dtype == np.int8:
            panels = weight.reshape(-1, 4, weight.shape[1] // PANEL, PANEL)
            layer.integers = self._keep(panels.transpose(2, 0, 3, 1), np.int8)
            layer.sums = self._keep(weight.sum(axis=0, dtype=np.int32), np.int32)
            scale = self._take(f"{name}.scale", outputs)
            layer.scale = self._keep(widened(scale, parts[1]))
        else:
            layer.floats = self._keep(panels.transpose(1, 0, 2))
        bias = np.zeros(outputs, np.float32)
        if self._has(f"{name}.bias"):
            bias = self._take(f"{name}.bias", outputs)
        layer.bias = self._keep(widened(bias, parts[1], filler))
        return layer

    def _norm(self, name: str, size: int) -> Norm:
        if not self._has(f"{name}.scale"):
            return Norm()
        both = (self._take(f"{name}.{part}", size) for part in ("scale", "shift"))
        return Norm(size, *(self._keep(widened(x)) for x in both))

    def _has(self, name: str) -> bool:
        return name in self._tensors

    def _outputs(self, name: str) -> int:
        weight = self._tensors.get(f"{name}.weight")
        _check(weight is not None and weight.ndim == 2, f"{name}.weight")
        return weight.shape[1]

    def _take(self, name: str, *shape: int | None) -> np.ndarray:
        """An array of that shape; None is any size."""
        found = self._tensors.pop(name, None)
        _check(found is not None and found.ndim == len(shape) and found.size, name)
        _check(all(size in (None, has) for size, has in zip(shape, found.shape)), name)
        integers = name.endswith(".weight") and found.dtype == np.int8
        _check(integers or found.dtype in (np.float32, np.float16), name)
        return found if integers else found.astype(np.float32)

    def _keep(self, array: np.ndarray, type_=np.float32) -> int:
        """The address of a copy, at the beginning of a cache line."""
        array = np.ascontiguousarray(array, type_).reshape(-1)
        room = np.empty(array.nbytes + 64, np.uint8)
        start = -room.ctypes.data % 64
        copy = room[start : start + array.nbytes]
        copy[:] = array.view(np.uint8)
        self._kept.append(room)
        return copy.ctypes.data


def widened(array: np.ndarray, parts: int = 1, filler: float = 0) -> np.ndarray:
    """Each of the *parts* of the last axis, padded to a multiple of 32."""
    *shape, size = array.shape
    array = array.reshape(*shape, parts, size // parts)
    room = np.full((*shape, parts, -(-array.shape[-1] // WIDTH) * WIDTH), filler, array.dtype)
    room[..., : array.shape[-1]] = array
    return room.reshape(*shape, -1)


def _check(right, name: str) -> None:
    if not right:
        raise ValueError(f"{name} does not fit: export the model again")
