"""The encoder, the decoding step and the beam search of exported models, in C++.

runtime.py uses it where it is installed. Arrays are checked and laid out here as step.cpp reads
them.
"""

import ctypes
import os
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_double, c_float, c_int, c_int32, c_void_p
from pathlib import Path

import numpy as np

ACTIVATIONS = ("relu", "gelu")
# of step.cpp: no mixing, a matrix, a matrix under a gate
MIXINGS = {"none": 0, "linear": 1, "toeplitz": 1, "gated": 2}
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
        *_fields(c_void_p, "weights own scale shift offset"),
    ]


class Stack(ctypes.Structure):
    _fields_ = [
        *_fields(c_int32, "tokens channels width"),
        *_fields(c_int32, "mixing heads positions distances is_matrix"),
        *_fields(c_int32, "activation layer_count"),
        ("factor", c_float),
        ("embedding", Linear),
        *_fields(c_void_p, "positional alpha bytes layers"),
        ("last_norm", Norm),
        ("last", Linear),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        *_fields(c_int32, "sentences length beam limit heads no_repeat_ngram"),
        ("lenpen", c_double),
        *_fields(c_void_p, "sources lengths prefixes prefix_lengths counts scores sizes tokens"),
    ]


def load_library() -> ctypes.CDLL:
    """The library beside this file. Raises ImportError if its structures are not those above."""
    library = ctypes.CDLL(str(next(Path(__file__).parent.glob("libresmlp_mt_step.*"))))
    library.resmlp_kernel.argtypes, library.resmlp_kernel.restype = [c_char_p], c_void_p
    for entry in (library.resmlp_search, library.resmlp_score):
        entry.argtypes = [c_void_p, *[POINTER(Stack)] * 2, POINTER(Request), c_int]
    library.resmlp_sizes.restype = POINTER(c_int32)
    sizes = [ctypes.sizeof(type_) for type_ in (Linear, Norm, Layer, Stack, Request)]
    if library.resmlp_sizes()[: len(sizes)] != sizes:
        raise ImportError("the library is of another version")
    return library


_library = load_library()


class NativeSearch:
    """A model of *arrays* by name, and its search. RESMLP_MT_KERNEL in the environment may name a
    kernel: amx, avx512, avx2, neon, plain. *spelling* has, of the source and of the target, the
    tokens that spell the 256 bytes, -1 where there is none: translations spell only bytes that the
    source spells."""

    def __init__(
        self,
        arrays: dict[str, np.ndarray],
        config: dict,
        spelling: Sequence[Sequence[int]] | None = None,
    ):
        kernel = os.environ.get("RESMLP_MT_KERNEL", "")
        self._kernel = _library.resmlp_kernel(kernel.encode())
        if not self._kernel:
            raise ValueError(f"this CPU has no kernel {kernel!r}: change RESMLP_MT_KERNEL")
        self._layout, self._config = Layout(arrays, config), config
        self._decoder, self._encoder = (self._layout.stack(side) for side in (1, 0))
        self._layout.check_all_read()
        if spelling is not None:
            for stack, tokens in zip((self._encoder, self._decoder), spelling, strict=True):
                table = np.array(tokens)
                right = table.shape == (256,) and -1 <= table.min() <= table.max() < stack.tokens
                _check(right, "spelling of bytes")
                stack.bytes = self._layout._store(table, np.int32)

    def search(
        self,
        sources: Sequence[Sequence[int]],
        beam: int,
        lenpen: float,
        limit: int,
        threads: int,
        prefixes: Sequence[Sequence[int]] | None = None,
        no_repeat_ngram: int = 0,
    ) -> list[list[tuple[float, np.ndarray]]]:
        """The hypotheses of each sentence, the best first: score and tokens, at most *limit*.
        *sources* are indices of tokens. Hypotheses begin with the prefix of their sentence, and
        tokens after it do not repeat an n-gram of *no_repeat_ngram* tokens, if that is not 0."""
        _check(1 <= beam <= (self._decoder.tokens - 1) // 2, "beam")
        _check(0 <= no_repeat_ngram < 1 << 24, "no_repeat_ngram")
        _check(0 <= limit < self._config["positions"][1], "limit")
        count = len(sources)
        counts, sizes = np.zeros(count, np.int32), np.zeros((count, beam), np.int32)
        scores = np.zeros((count, beam), np.float32)
        out = np.empty((count, beam, limit), np.int32)
        made = counts, scores, sizes, out
        self._run("search", sources, prefixes, limit, made, threads, beam, no_repeat_ngram, lenpen)
        found = [
            [(float(scores[i, j]), out[i, j, : sizes[i, j]].copy()) for j in range(counts[i])]
            for i in range(count)
        ]
        return [sorted(hypotheses, key=lambda one: -one[0]) for hypotheses in found]

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], threads: int
    ) -> list[np.ndarray]:
        """The log probability of each token of the *targets*, and of the end after them."""
        limit = max(map(len, targets))
        scores = np.zeros((len(sources), limit + 1), np.float32)
        self._run("score", sources, targets, limit, (None, scores, None, None), threads)
        return [row[: len(target) + 1].copy() for row, target in zip(scores, targets)]

    def _run(
        self, entry, sources, prefixes, limit, made, threads, beam=1, no_repeat_ngram=0, lenpen=0.0
    ) -> None:
        given = [*_table(sources), *(_table(prefixes, limit) if prefixes else (None, None))]
        most, (tokens, lengths, starts, _) = self._config["positions"], given
        _check(lengths.min() > 0 and tokens.shape[1] <= most[0], "length")
        _check(tokens.min() >= 0 and tokens.max() < self._encoder.tokens, "token")
        _check(0 <= limit < most[1], "limit")
        if starts is not None:
            _check(len(starts) == len(tokens), "prefixes")
            right = ((starts >= 0) & (starts < self._decoder.tokens)).all()
            _check(right, "token of a prefix")
        addresses = [None if x is None else x.ctypes.data for x in (*given, *made)]
        sizes = *tokens.shape, beam, limit, self._config["heads"], no_repeat_ngram
        request, stacks = Request(*sizes, lenpen, *addresses), (self._encoder, self._decoder)
        if getattr(_library, f"resmlp_{entry}")(self._kernel, *stacks, request, threads):
            raise MemoryError("the search ran out of memory")


class Layout:
    """Arrays as step.cpp reads them, which it keeps alive."""

    def __init__(self, arrays: dict[str, np.ndarray], config: dict):
        self._arrays, self._config = arrays, config
        self._unread, self._stored = set(arrays), []
        self._embeddings: dict[str, Linear] = {}

    def check_all_read(self) -> None:
        if self._unread:
            raise ValueError(f"it does not know {min(self._unread)}")

    def stack(self, side: int) -> Stack:
        """The encoder, 0, or the decoder, 1."""
        names = ("vocabulary", "channels", "layers", "positions")
        tokens, channels, layers, positions = (self._config[name][side] for name in names)
        heads, readers = self._config["heads"], self._config["layers"]
        for size in (channels, layers, tokens - EOS, positions, heads):
            _check(type(size) is int and 0 < size < 1 << 24, "config.json")
        _check(self._config["channels"][1] % heads == 0, "heads")
        stack, name = Stack(tokens, channels, _padded(channels)), ("encoder", "decoder")[side]
        self._kind = self._config["mixing"]
        stack.mixing = MIXINGS[self._kind]
        stack.activation = ACTIVATIONS.index(self._config["activation"])
        if f"{name}.positions" in self._arrays:
            table = self._take(f"{name}.positions", None, channels)
            _check(len(table) >= positions, f"{name}.positions")
            stack.positional = self._store(widened(table[:positions]))
        found = [self._layer(stack, f"{name}.{i}", positions, side == 1) for i in range(layers)]
        self._stored.append((Layer * layers)(*found))
        stack.layer_count, stack.layers = layers, ctypes.addressof(self._stored[-1])
        stack.last_norm = self._norm(f"{name}.last_norm", channels)
        if side == 0:
            parts = 2 * readers[1]
            outputs = parts * self._config["channels"][1]
            stack.last = self._linear("encoder.keys_values", channels, outputs, parts)
        else:
            if "decoder.output_scale" in self._arrays:
                stack.alpha = self._store(widened(self._take("decoder.output_scale", channels)))
            stack.last = self._linear("decoder.output", channels, tokens, filler=-np.inf)
            self._embeddings["decoder.output"] = stack.last
        columns, stack.factor = self._config["embeddings"][side]
        if columns not in self._embeddings:
            self._embeddings[columns] = self._linear(columns, channels, tokens)
        stack.embedding = self._embeddings[columns]
        sizes = stack.embedding.inputs, stack.embedding.outputs
        _check(sizes == (stack.width, _padded(tokens)), columns)
        return stack

    def _layer(self, stack: Stack, name: str, positions: int, causal: bool) -> Layer:
        layer, channels = Layer(), stack.channels
        if self._kind != "none":
            layer.mixing_norm = self._norm(f"{name}.mixing_norm", channels)
            self._mixing(stack, layer, f"{name}.mixing", positions, causal)
        if self._kind == "gated":
            gate = f"{name}.value_gate"
            layer.mixing_in = self._linear(gate, channels, 2 * channels, 2)
            layer.mixing_out = self._linear(f"{name}.output", channels, channels)
        if causal:
            layer.attention_norm = self._norm(f"{name}.attention_norm", channels)
            layer.query = self._linear(f"{name}.query", channels, channels)
            layer.attended = self._linear(f"{name}.attended", channels, channels)
        layer.feed_forward_norm = self._norm(f"{name}.feed_forward_norm", channels)
        bias = self._arrays.get(f"{name}.first.bias")
        _check(bias is not None and bias.ndim == 1, f"{name}.first.bias")
        layer.first = self._linear(f"{name}.first", channels, len(bias))
        layer.second = self._linear(f"{name}.second", len(bias), channels)
        return layer

    def _mixing(self, stack: Stack, layer: Layer, name: str, positions: int, causal: bool) -> None:
        """``A (scale x + shift) + offset``, as weights.py of the export describes it."""
        channels, is_matrix = stack.channels, self._kind == "linear"
        offset = self._take(f"{name}.offset", None, None, None)
        known, heads, _ = offset.shape
        fits = known >= positions and channels % heads == 0
        _check(fits and stack.heads in (0, heads) and stack.positions in (0, known), name)
        if causal:
            shape = [known * (known + 1) // 2 if is_matrix else known]
        else:
            shape = [known, known] if is_matrix else [2 * known - 1]
        stack.heads, stack.positions, stack.is_matrix = heads, known, is_matrix
        stack.distances = int(np.prod(shape))
        layer.weights = self._store(self._take(f"{name}.weights", heads, *shape))

        def by_position(values: np.ndarray) -> np.ndarray:
            values = np.broadcast_to(values, (known, heads, channels // heads))
            return values.reshape(known, channels)[:positions]

        layer.offset = self._store(widened(by_position(offset)))
        scale, shift = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        if self._kind != "gated":
            scale = self._take(f"{name}.scale", channels)
        if f"{name}.shift" in self._arrays:
            shift = self._take(f"{name}.shift", channels)
        layer.scale, layer.shift = self._store(widened(scale)), self._store(widened(shift))
        if causal and is_matrix:
            own = by_position(self._take(f"{name}.own", known, heads, 1)) * scale
            layer.own = self._store(widened(own))
        elif causal:
            layer.own = self._store(widened(self._take(f"{name}.own", channels)))

    def _linear(
        self, name: str, inputs: int, outputs: int, parts: int = 1, filler: float = 0
    ) -> Linear:
        """Panels of 16 columns, with the bytes of four inputs side by side. The outputs are *parts*
        of equal size, each padded."""
        weight = self._take(f"{name}.weight", inputs, outputs)
        weight = widened(widened(weight, parts).T).T
        layer = Linear(*weight.shape)
        panels = weight.reshape(-1, weight.shape[1] // PANEL, PANEL)
        if weight.dtype == np.int8:
            panels = weight.reshape(-1, 4, weight.shape[1] // PANEL, PANEL)
            layer.integers = self._store(panels.transpose(2, 0, 3, 1), np.int8)
            layer.sums = self._store(weight.sum(axis=0, dtype=np.int32), np.int32)
            scale = self._take(f"{name}.scale", outputs)
            layer.scale = self._store(widened(scale, parts))
        else:
            layer.floats = self._store(panels.transpose(1, 0, 2))
        bias = np.zeros(outputs, np.float32)
        if f"{name}.bias" in self._arrays:
            bias = self._take(f"{name}.bias", outputs)
        layer.bias = self._store(widened(bias, parts, filler))
        return layer

    def _norm(self, name: str, size: int) -> Norm:
        if f"{name}.scale" not in self._arrays:
            return Norm()
        both = (self._take(f"{name}.{part}", size) for part in ("scale", "shift"))
        return Norm(size, *(self._store(widened(x)) for x in both))

    def _take(self, name: str, *shape: int | None) -> np.ndarray:
        """An array of that shape; None is any size."""
        found = self._arrays.get(name)
        _check(found is not None and found.ndim == len(shape) and found.size, name)
        _check(all(size in (None, has) for size, has in zip(shape, found.shape)), name)
        self._unread.discard(name)
        integers = name.endswith(".weight") and found.dtype == np.int8
        _check(integers or found.dtype in (np.float32, np.float16), name)
        return found if integers else found.astype(np.float32)

    def _store(self, array: np.ndarray, type_=np.float32) -> int:
        """The address of a copy, at the beginning of a cache line."""
        array = np.ascontiguousarray(array, type_).reshape(-1)
        room = np.empty(array.nbytes + 64, np.uint8)
        start = -room.ctypes.data % 64
        copy = room[start : start + array.nbytes]
        copy[:] = array.view(np.uint8)
        self._stored.append(room)
        return copy.ctypes.data


def _table(rows: Sequence[Sequence[int]], width: int | None = None) -> tuple:
    """B x *width* tokens, and the length of each row."""
    lengths = np.array(list(map(len, rows)), np.int32)
    width = int(lengths.max()) if width is None else width
    _check(lengths.max() <= width, "length of a prefix")
    table = np.zeros((len(rows), width), np.int32)
    for row, tokens in zip(table, rows):
        row[: len(tokens)] = tokens
    return table, lengths


def _padded(size: int) -> int:
    return -(-size // WIDTH) * WIDTH


def widened(array: np.ndarray, parts: int = 1, filler: float = 0) -> np.ndarray:
    """Each of the *parts* of the last axis, padded to a multiple of 32."""
    *shape, size = array.shape
    array = array.reshape(*shape, parts, size // parts)
    room = np.full((*shape, parts, _padded(array.shape[-1])), filler, array.dtype)
    room[..., : array.shape[-1]] = array
    return room.reshape(*shape, -1)


def _check(right, name: str) -> None:
    if not right:
        raise ValueError(f"{name} does not fit: export the model again")
