"""The encoder and a decoding step in NumPy, from the arrays of folder.py.

Slow, but it runs anywhere, and computes what engine.cpp does, except for the order of sums.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from resmlp_mt_runtime.folder import Export
from resmlp_mt_runtime.search import Hypotheses, Sentences, score, search, table

EPSILON = np.float32(1e-5)  # of fairseq's LayerNorm
EXACT = 512  # products of 8 bits, whose sum float32 holds exactly
SCORES = 1 << 24  # of next tokens at a time; each takes some 16 bytes


class NumpyEngine:
    """The model of an exported folder. Sentences are indices of tokens; sources end with EOS."""

    def __init__(self, export: Export):
        self._config: dict[str, Any] = export.config
        # copies: the file, which is mapped into memory, may be replaced
        self._arrays = {name: x.astype(np.float32) for name, x in export.arrays.items()}

    def search(self, sources: Sentences, beam: int, lenpen, limit, prefixes, *more) -> Hypotheses:
        """See :func:`resmlp_mt_runtime.search.search`."""
        found: Hypotheses = []
        for some in self._slices(len(sources), beam):
            found += search(self, sources[some], beam, lenpen, limit, prefixes[some], *more)
        return found

    def score(self, sources: Sentences, targets: Sentences) -> list[list[float]]:
        """See :func:`resmlp_mt_runtime.search.score`."""
        slices = self._slices(len(sources), 1)
        return [row for some in slices for row in score(self, sources[some], targets[some])]

    def _slices(self, sentences: int, beam: int) -> Iterator[slice]:
        """So few sentences at a time that the scores of all next tokens fit into memory."""
        size = max(1, SCORES // (beam * self._config["vocabulary"][1]))
        return (slice(i, i + size) for i in range(0, sentences, size))

    def encode(self, sources: Sentences) -> "State":
        """What the decoder reads of B sentences."""
        config, layers = self._config, self._config["layers"]
        tokens, lengths = table(sources, max(map(len, sources)))
        inside = np.arange(tokens.shape[1]) < lengths[:, None]
        x = self._embed(tokens, 0) + self._arrays["encoder.positions"][: tokens.shape[1]]
        for name in (f"encoder.{number}" for number in range(layers[0])):
            x = self._mix(x, name, self._mix_sentences, inside)
            x = self._feed_forward(x, name)
        # not 0 times infinity, where only padding overflows
        x = np.where(inside[:, :, None], self._linear(self._normal(x), "encoder.keys_values"), 0)
        x = x.reshape(*tokens.shape, 2 * layers[1], config["heads"], -1).transpose(2, 0, 3, 1, 4)
        return State(x[::2], x[1::2], inside[:, None, None])

    def step(self, newest: np.ndarray, state: "State") -> np.ndarray:
        """Log probabilities, B x J x V, of what follows the B x J newest tokens."""
        x = self._embed(newest, 1) + self._arrays["decoder.positions"][state.length]
        for number in range(self._config["layers"][1]):
            name = f"decoder.{number}"
            x = self._mix(x, name, self._mix_newest, state, number)
            found = state.attend(number, self._linear(self._normal(x), f"{name}.query"))
            x = self._feed_forward(x + self._linear(found, f"{name}.attended"), name)
        x = self._normal(x) * self._arrays["decoder.output_scale"]
        scores = self._linear(x, "decoder.output")
        scores -= scores.max(-1, keepdims=True)
        scores -= np.log(np.exp(scores).sum(-1, keepdims=True))
        return scores

    def _embed(self, tokens: np.ndarray, side: int) -> np.ndarray:
        """... to ... x C."""
        name, factor = self._config["embeddings"][side]
        x, scale = self._arrays[f"{name}.weight"].T[tokens], np.float32(factor)
        if f"{name}.scale" in self._arrays:
            scale = scale * self._arrays[f"{name}.scale"][tokens, ..., None]
        return x * scale

    def _normal(self, x: np.ndarray) -> np.ndarray:
        """What a sublayer reads, ... x C: x, or a LayerNorm without scale and shift."""
        if self._config["normalization"] == "affine":
            return x
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + EPSILON)

    def _mix(self, x: np.ndarray, name: str, mixing: Callable, *more) -> np.ndarray:
        """``Z = X + Aff(A Aff(X))``, perhaps with a gate; affine maps are folded."""
        read = self._normal(x)
        if self._config["mixing"] != "gated":
            return x + mixing(read, name, *more)
        value, gate = np.split(self._linear(read, f"{name}.value_gate"), 2, -1)
        return x + self._linear(mixing(value, name, *more) * self._activate(gate), f"{name}.output")

    def _feed_forward(self, x: np.ndarray, name: str) -> np.ndarray:
        """``Y = Z + C GELU(B norm(Z))``."""
        hidden = self._activate(self._linear(self._normal(x), f"{name}.first"))
        return x + self._linear(hidden, f"{name}.second")

    def _mixing(self, name: str, *parts: str) -> list[np.ndarray]:
        return [self._arrays[f"{name}.mixing.{part}"] for part in parts]

    def _mix_sentences(self, x: np.ndarray, name: str, inside: np.ndarray) -> np.ndarray:
        """``A (scale x + shift) + offset`` of whole sentences, B x S x C."""
        weights, scale, shift, offset = self._mixing(name, "weights", "scale", "shift", "offset")
        length = x.shape[1]
        if weights.ndim == 3:
            matrix = weights[:, :length, :length]
        else:
            t = np.arange(length)
            matrix = weights[:, weights.shape[1] // 2 + t[:, None] - t]
        grouped = np.where(inside[:, :, None], x * scale + shift, 0)
        grouped = grouped.reshape(*x.shape[:2], len(matrix), -1)
        mixed = (matrix @ grouped.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3)
        return mixed.reshape(x.shape) + offset[:length]

    def _mix_newest(self, x: np.ndarray, name: str, state: "State", number: int) -> np.ndarray:
        """``scale (A x) + offset`` of the newest tokens, B x J x C, in this layer."""
        past = state.add(number, x)  # B x J x T x C
        weights, scale, offset = self._mixing(name, "weights", "scale", "offset")
        length = past.shape[2]
        begin = length * (length - 1) // 2 if self._config["mixing"] == "linear" else 0
        weights = weights[:, begin : begin + length][:, ::-1]
        grouped = past.reshape(*past.shape[:3], len(weights), -1)
        mixed = np.einsum("ht,bjthd->bjhd", weights, grouped).reshape(x.shape)
        return mixed * scale + offset[length - 1]

    def _activate(self, x: np.ndarray) -> np.ndarray:
        if self._config["activation"] == "relu":
            return np.maximum(x, 0)
        # the error function: Abramowitz and Stegun, 7.1.26
        z = np.abs(x) * np.float32(0.5**0.5)
        t = 1 / (1 + np.float32(0.3275911) * z)
        p = np.float32(1.061405429) * t - np.float32(1.453152027)
        for coefficient in (1.421413741, -0.284496736, 0.254829592):
            p = p * t + np.float32(coefficient)
        return np.maximum(x, 0) - np.abs(x) / 2 * (p * t * np.exp(-z * z))

    def _linear(self, x: np.ndarray, name: str) -> np.ndarray:
        """``x W + b``. Where W has 8 bits, x gets 8 bits by row, as in engine.cpp."""
        weight, bias = (self._arrays[f"{name}.{part}"] for part in ("weight", "bias"))
        shape, x = (*x.shape[:-1], len(bias)), x.reshape(-1, len(weight))
        if f"{name}.scale" not in self._arrays:
            return (x @ weight + bias).reshape(shape)
        low, high = (f(x, axis=1, keepdims=True, initial=0) for f in (np.min, np.max))
        # a range so near 0 that 1 / step overflows is none
        step = np.where(high - low > 1e-36, (high - low) / np.float32(255), np.float32(1))
        zero = np.rint(np.minimum(-low / step, 255))
        x = np.clip(np.rint(x * (1 / step)) + zero, 0, 255) - zero
        blocks = (slice(i, i + EXACT) for i in range(0, len(weight), EXACT))
        sums = sum((x[:, block] @ weight[block]).astype(np.float64) for block in blocks)
        return (np.float32(sums) * (self._arrays[f"{name}.scale"] * step) + bias).reshape(shape)


class State:
    """What the decoder remembers of B sentences with J hypotheses each: *keys* and *values*,
    L x B x H x S x D, masked by *inside*, and the inputs of its mixing sublayers, B x J x T x C."""

    def __init__(self, keys: np.ndarray, values: np.ndarray, inside: np.ndarray):
        self._keys, self._values, self._inside = keys, values, inside
        layers, sentences, heads, _, each = keys.shape
        self._past = [np.zeros((sentences, 1, 0, heads * each), np.float32)] * layers

    @property
    def length(self) -> int:
        """Tokens of the target so far."""
        return self._past[0].shape[2]

    def add(self, layer: int, x: np.ndarray) -> np.ndarray:
        """Store B x J x C inputs; returns all inputs so far."""
        self._past[layer] = np.concatenate([self._past[layer], x[:, :, None]], axis=2)
        return self._past[layer]

    def attend(self, layer: int, query: np.ndarray) -> np.ndarray:
        """B x J x C to the same."""
        keys, values = self._keys[layer], self._values[layer]
        query = query.reshape(*query.shape[:2], keys.shape[1], -1).transpose(0, 2, 1, 3)
        scores = np.where(self._inside, query @ keys.swapaxes(2, 3), -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        found = (scores @ values).transpose(0, 2, 1, 3)
        return found.reshape(*found.shape[:2], -1)

    def follow(self, sentences: np.ndarray, parents: np.ndarray) -> None:
        """Keep these sentences; their hypotheses continue those that *parents* name."""
        self._keys, self._values = self._keys[:, sentences], self._values[:, sentences]
        self._inside = self._inside[sentences]
        self._past = [past[sentences[:, None], parents] for past in self._past]
