"""The engine in C++ by ctypes."""

import ctypes
import os
import weakref
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_void_p
from pathlib import Path

import numpy as np

from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.folder import Export
from resmlp_mt_runtime.search import Hypotheses, Sentences, table

TYPES = [np.float32, np.float16, np.int8]


def _fields(type_, names: str) -> list:
    return [(name, type_) for name in names.split()]


class Array(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), *_fields(c_int32, "type rows columns")]


class Config(ctypes.Structure):
    _fields_ = [
        *_fields(c_int32 * 2, "vocabulary layers channels mixing_heads"),
        *_fields(c_int32, "heads is_gated is_matrix is_gelu is_normalized arrays"),
        ("factors", c_float * 2),
        ("embeddings", c_char_p * 2),
    ]


class Request(ctypes.Structure):
    _fields_ = [
        *_fields(c_int32, "sentences length beam limit no_repeat_ngram threads"),
        ("lenpen", c_double),
        *_fields(c_void_p, "sources lengths prefixes prefix_lengths counts scores sizes tokens"),
    ]


def load_library(folder: Path = Path(__file__).parent) -> ctypes.CDLL | None:
    """The library, if it was built. Raises a UserError if it is damaged or another version's."""
    paths = [*folder.glob("libresmlp_mt_engine.*")]
    if not paths:
        return None
    try:
        library = ctypes.CDLL(str(paths[0]))
        library.resmlp_kernel.argtypes, library.resmlp_kernel.restype = [c_char_p], c_void_p
        library.resmlp_load.argtypes = [POINTER(Array), POINTER(Config)]
        library.resmlp_load.restype, library.resmlp_free.argtypes = c_void_p, [c_void_p]
        library.resmlp_search.argtypes = [c_void_p, c_void_p, POINTER(Request)]
        library.resmlp_sizes.restype = POINTER(c_int32)
        sizes = [ctypes.sizeof(type_) for type_ in (Array, Config, Request)]
        sizes += [Config.factors.offset, Request.lenpen.offset]  # padding may hide a new field
        if library.resmlp_sizes()[: len(sizes)] != sizes:
            raise AttributeError("other structures")
    except (OSError, AttributeError) as error:
        wrong = f"{paths[0]} cannot be loaded, or is another version's ({error})"
        raise UserError(f"{wrong}: install the runtime again from source") from None
    return library


class NativeEngine:
    """The model of an exported folder, on *threads* threads. RESMLP_MT_KERNEL in the environment
    may name a kernel: amx, avx512, avxvnni, avx2, neon, plain."""

    def __init__(self, library: ctypes.CDLL, export: Export, threads: int):
        kernel = os.environ.get("RESMLP_MT_KERNEL", "")
        self._kernel = library.resmlp_kernel(os.fsencode(kernel))
        if not self._kernel:
            raise UserError(f"this CPU has no kernel {kernel!r}: change RESMLP_MT_KERNEL")
        self._library, self._threads = library, threads
        arrays = {name: np.ascontiguousarray(x) for name, x in export.arrays.items()}
        self._model = library.resmlp_load(_arrays(arrays), _config(export))
        if not self._model:
            raise MemoryError
        # not at exit, when a thread may still translate
        weakref.finalize(self, library.resmlp_free, self._model).atexit = False

    def search(
        self, sources: Sentences, beam, lenpen, limit, prefixes: Sentences, no_repeat_ngram
    ) -> Hypotheses:
        """See :func:`resmlp_mt_runtime.search.search`."""
        count = len(sources)
        counts, sizes = np.zeros(count, np.int32), np.zeros((count, beam), np.int32)
        scores = np.zeros((count, beam), np.float32)
        out = np.empty((count, beam, limit), np.int32)
        made = counts, scores, sizes, out
        self._run(sources, prefixes, limit, made, beam, no_repeat_ngram, lenpen)
        found = [
            [(float(scores[i, j]), out[i, j, : sizes[i, j]].tolist()) for j in range(counts[i])]
            for i in range(count)
        ]
        return [sorted(hypotheses, key=lambda one: -one[0]) for hypotheses in found]

    def score(self, sources: Sentences, targets: Sentences) -> list[list[float]]:
        """See :func:`resmlp_mt_runtime.search.score`."""
        limit = max(map(len, targets))
        scores = np.zeros((len(sources), limit + 1), np.float32)
        self._run(sources, targets, limit, (None, scores, None, None))
        return [row[: len(target) + 1].tolist() for row, target in zip(scores, targets)]

    def _run(self, sources, prefixes, limit, made, beam=1, no_repeat_ngram=0, lenpen=0.0) -> None:
        given = *table(sources, max(map(len, sources))), *table(prefixes, limit)
        addresses = [None if array is None else array.ctypes.data for array in (*given, *made)]
        sizes = *given[0].shape, beam, limit, no_repeat_ngram, self._threads
        request = Request(*sizes, lenpen, *addresses)
        if self._library.resmlp_search(self._kernel, self._model, request):
            raise MemoryError


def _arrays(arrays: dict[str, np.ndarray]) -> ctypes.Array:
    entries = [
        Array(name.encode(), x.ctypes.data, TYPES.index(x.dtype), x[..., 0].size, x.shape[-1])
        for name, x in arrays.items()
    ]
    return (Array * len(entries))(*entries)


def _config(export: Export) -> Config:
    """What the library has to know of the model."""
    config, pair = export.config, ("vocabulary", "layers", "channels", "mixing_heads")
    names, factors = zip(*config["embeddings"])
    return Config(
        *(tuple(config[name]) for name in pair),
        config["heads"],
        config["mixing"] == "gated",
        config["mixing"] == "linear",
        config["activation"] == "gelu",
        config["normalization"] == "layernorm",
        len(export.arrays),
        factors,
        tuple(name.encode() for name in names),
    )
