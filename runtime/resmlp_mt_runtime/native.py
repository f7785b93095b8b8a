"""The engine in C++ by ctypes: arrays are laid out here as engine.cpp reads them."""

import ctypes
import os
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_void_p
from pathlib import Path

import numpy as np

from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.folder import SIDES, Export, byte_tokens
from resmlp_mt_runtime.search import Hypotheses, Sentences

WIDTH, PANEL = 32, 16


def _fields(type_, names: str) -> list:
    return [(name, type_) for name in names.split()]


class Linear(ctypes.Structure):
    _fields_ = [
        *_fields(c_int32, "inputs outputs"),
        *_fields(c_void_p, "integers floats scale bias sums"),
    ]


class Layer(ctypes.Structure):
    _fields_ = [
        *_fields(Linear, "mixing_in mixing_out query attended first second"),
        *_fields(c_void_p, "weights own scale shift offset"),
    ]


class Stack(ctypes.Structure):
    _fields_ = [
        *_fields(c_int32, "tokens channels width"),
        *_fields(c_int32, "is_gated is_matrix heads positions distances"),
        *_fields(c_int32, "activation layer_count"),
        ("factor", c_float),
        ("embedding", Linear),
        *_fields(c_void_p, "positional alpha bytes layers"),
        ("last", Linear),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        *_fields(c_int32, "sentences length beam limit heads no_repeat_ngram"),
        ("lenpen", c_double),
        *_fields(c_void_p, "sources lengths prefixes prefix_lengths counts scores sizes tokens"),
    ]


def load_library(folder: Path = Path(__file__).parent) -> ctypes.CDLL | None:
    """The library, if it was built. Raises a UserError if it is another version's."""
    paths = [*folder.glob("libresmlp_mt_engine.*")]
    if not paths:
        return None
    try:
        library = ctypes.CDLL(str(paths[0]))
        library.resmlp_kernel.argtypes, library.resmlp_kernel.restype = [c_char_p], c_void_p
        for entry in (library.resmlp_search, library.resmlp_score):
            entry.argtypes = [c_void_p, *[POINTER(Stack)] * 2, POINTER(Request), c_int]
        library.resmlp_sizes.restype = POINTER(c_int32)
        sizes = [ctypes.sizeof(type_) for type_ in (Linear, Layer, Stack, Request)]
        right = library.resmlp_sizes()[: len(sizes)] == sizes
    except (OSError, AttributeError):
        right = False
    if not right:
        raise UserError(f"{paths[0]} is not the library of this version: install the runtime again")
    return library


class NativeEngine:
    """The model of an exported folder, on so many *threads*. RESMLP_MT_KERNEL in the environment
    may name a kernel: amx, avx512, avx2, neon, plain."""

    def __init__(self, library: ctypes.CDLL, export: Export, threads: int):
        kernel = os.environ.get("RESMLP_MT_KERNEL", "")
        self._kernel = library.resmlp_kernel(kernel.encode())
        if not self._kernel:
            raise UserError(f"this CPU has no kernel {kernel!r}: change RESMLP_MT_KERNEL")
        self._library, self._threads, self._layout = library, threads, Layout(export)
        self._heads = export.config["heads"]
        self._decoder, self._encoder = (self._layout.stack(side) for side in (1, 0))

    def search(
        self,
        sources: Sentences,
        beam: int,
        lenpen: float,
        limit: int,
        prefixes: Sentences,
        no_repeat_ngram: int = 0,
    ) -> Hypotheses:
        """See :func:`resmlp_mt_runtime.search.search`."""
        count = len(sources)
        counts, sizes = np.zeros(count, np.int32), np.zeros((count, beam), np.int32)
        scores = np.zeros((count, beam), np.float32)
        out = np.empty((count, beam, limit), np.int32)
        made = counts, scores, sizes, out
        self._run("search", sources, prefixes, limit, made, beam, no_repeat_ngram, lenpen)
        found = [
            [(float(scores[i, j]), out[i, j, : sizes[i, j]].tolist()) for j in range(counts[i])]
            for i in range(count)
        ]
        return [sorted(hypotheses, key=lambda one: -one[0]) for hypotheses in found]

    def score(self, sources: Sentences, targets: Sentences) -> list[list[float]]:
        """See :func:`resmlp_mt_runtime.search.score`."""
        limit = max(map(len, targets))
        scores = np.zeros((len(sources), limit + 1), np.float32)
        self._run("score", sources, targets, limit, (None, scores, None, None))
        return [row[: len(target) + 1].tolist() for row, target in zip(scores, targets)]

    def _run(
        self, entry, sources, prefixes, limit, made, beam=1, no_repeat_ngram=0, lenpen=0.0
    ) -> None:
        given = *_table(sources, max(map(len, sources))), *_table(prefixes, limit)
        addresses = [None if array is None else array.ctypes.data for array in (*given, *made)]
        sizes = *given[0].shape, beam, limit, self._heads, no_repeat_ngram
        request, stacks = Request(*sizes, lenpen, *addresses), (self._encoder, self._decoder)
        run = getattr(self._library, f"resmlp_{entry}")
        if run(self._kernel, *stacks, request, self._threads):
            raise MemoryError


class Layout:
    """Arrays as engine.cpp reads them, which it keeps alive."""

    def __init__(self, export: Export):
        self._export, self._arrays, self._stored = export, export.arrays, []
        self._linears: dict[str, Linear] = {}  # embeddings may be the output layer

    def stack(self, side: int) -> Stack:
        """The encoder, 0, or the decoder, 1."""
        config, name = self._export.config, SIDES[side]
        tokens, channels, positions, heads, layers = (
            config[of][side]
            for of in ("vocabulary", "channels", "positions", "mixing_heads", "layers")
        )
        found = (Layer * layers)(*(self._layer(f"{name}.{i}", side) for i in range(layers)))
        self._stored.append(found)
        columns, factor = config["embeddings"][side]
        weights = self._arrays[f"{name}.0.mixing.weights"]
        stack = Stack(
            tokens=tokens,
            channels=channels,
            width=_padded(channels),
            is_gated=config["mixing"] == "gated",
            is_matrix=config["mixing"] == "linear",
            heads=heads,
            positions=positions,
            distances=weights[0].size,
            activation=("relu", "gelu").index(config["activation"]),
            layer_count=layers,
            factor=factor,
            embedding=self._linear(columns),
            positional=self._store(widen(self._arrays[f"{name}.positions"])),
            bytes=self._store(byte_tokens(self._export.tokens[side]), np.int32),
            layers=ctypes.addressof(found),
        )
        if side == 0:
            stack.last = self._linear("encoder.keys_values", 2 * config["layers"][1])
        else:
            stack.alpha = self._store(widen(self._arrays["decoder.output_scale"]))
            stack.last = self._linear("decoder.output")
        return stack

    def _layer(self, name: str, side: int) -> Layer:
        layer, mixing = Layer(), self._export.config["mixing"]
        weights, scale, offset = (
            self._arrays[f"{name}.mixing.{part}"] for part in ("weights", "scale", "offset")
        )
        if mixing == "gated":
            layer.mixing_in = self._linear(f"{name}.value_gate", 2)
            layer.mixing_out = self._linear(f"{name}.output")
        if side == 0:
            layer.shift = self._store(widen(self._arrays[f"{name}.mixing.shift"]))
        else:
            layer.query = self._linear(f"{name}.query")
            layer.attended = self._linear(f"{name}.attended")
            # the weight of the newest token itself, for each channel, perhaps at each position
            rows = np.arange(len(offset) if mixing == "linear" else 1)
            own = weights[:, rows * (rows + 1) // 2].T.astype(np.float32)
            own = np.repeat(own, len(scale) // own.shape[1], axis=1) * scale
            layer.own = self._store(widen(own))
        layer.weights, layer.scale = self._store(weights), self._store(widen(scale))
        layer.offset = self._store(widen(offset))
        layer.first, layer.second = (self._linear(f"{name}.{part}") for part in ("first", "second"))
        return layer

    def _linear(self, name: str, parts: int = 1) -> Linear:
        """Panels of 16 columns, with the bytes of four inputs side by side. The outputs are *parts*
        of equal size, each padded."""
        if name in self._linears:
            return self._linears[name]
        weight = widen(widen(self._arrays[f"{name}.weight"], parts).T).T
        layer, bias = Linear(*weight.shape), self._arrays.get(f"{name}.bias")
        if weight.dtype == np.int8:
            panels = weight.reshape(-1, 4, weight.shape[1] // PANEL, PANEL)
            layer.integers = self._store(panels.transpose(2, 0, 3, 1), np.int8)
            layer.sums = self._store(weight.sum(axis=0, dtype=np.int32), np.int32)
            layer.scale = self._store(widen(self._arrays[f"{name}.scale"], parts))
        else:
            panels = weight.reshape(-1, weight.shape[1] // PANEL, PANEL)
            layer.floats = self._store(panels.transpose(1, 0, 2))
        if bias is not None:
            # no token is at the end of the padded vocabulary
            filler = -np.inf if name == "decoder.output" else 0
            layer.bias = self._store(widen(bias, parts, filler))
        self._linears[name] = layer
        return layer

    def _store(self, array, type_=np.float32) -> int:
        """The address of a copy, at the beginning of a cache line."""
        array = np.ascontiguousarray(array, type_).reshape(-1)
        room = np.empty(array.nbytes + 64, np.uint8)
        start = -room.ctypes.data % 64
        copy = room[start : start + array.nbytes]
        copy[:] = array.view(np.uint8)
        self._stored.append(room)
        return copy.ctypes.data


def _table(rows: Sequence[Sequence[int]], width: int) -> tuple[np.ndarray, np.ndarray]:
    """B x *width* tokens, and the length of each row."""
    table = np.zeros((len(rows), width), np.int32)
    for row, tokens in zip(table, rows):
        row[: len(tokens)] = tokens
    return table, np.array(list(map(len, rows)), np.int32)


def _padded(size: int) -> int:
    return -(-size // WIDTH) * WIDTH


def widen(array: np.ndarray, parts: int = 1, filler: float = 0) -> np.ndarray:
    """Each of the *parts* of the last axis, padded to a multiple of 32."""
    *shape, size = array.shape
    array = array.reshape(*shape, parts, size // parts)
    room = np.full((*shape, parts, _padded(array.shape[-1])), filler, array.dtype)
    room[..., : array.shape[-1]] = array
    return room.reshape(*shape, -1)
