"""Give the native runtime what hostile folders would give it: ``hostile_native.py FOLDER ...``.

Run under AddressSanitizer by test_native.py. Each array and each number is changed in turn; the
native runtime refuses it, or translates.
"""

import json
import sys
from pathlib import Path

import numpy as np
from resmlp_mt_native import NativeSearch

SOURCES = [[7, 9, 8, 4, 11, 2], [5, 2], [6, 4, 2]]


def other_arrays(x):
    """Arrays of other shapes, types and order in memory."""
    yield from (np.repeat(x, 2, axis) for axis in range(x.ndim))
    yield from (np.delete(x, 0, axis) for axis in range(x.ndim))
    yield from (np.take(x, [0], axis) for axis in range(x.ndim))
    yield from (x.ravel(), x[None], x[:0], x.T, x[::-1], x.copy("F"), x.astype(np.float64))
    yield from (x.astype(np.int8), x.astype(np.float32) * 1e38, x.astype(np.float32) * np.nan)


def other_numbers(n):
    yield from (0, -1, n - 1, n + 1, 2 * n, 1 << 31, (1 << 32) + n, 1 << 63, 2.5, "x", None, True)


def variants(value):
    """*value* with one array or number changed, or with an entry less."""
    if isinstance(value, np.ndarray):
        yield from other_arrays(value)
    elif type(value) is int:
        yield from other_numbers(value)
    elif isinstance(value, (list, tuple)):
        for i, entry in enumerate(value):
            yield from ([*value[:i], other, *value[i + 1 :]] for other in variants(entry))
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield {other: x for other, x in value.items() if other != name}
            yield from ({**value, name: other} for other in variants(entry))


def main(folders):
    refused = translated = 0
    for folder in folders:
        sys.path.insert(0, folder)
        from runtime import WEIGHTS, read_arrays

        config = json.loads(Path(folder, "config.json").read_text())
        made = read_arrays(Path(folder, WEIGHTS).read_bytes()), config
        asked = SOURCES, 4, 1.0, 9, 1
        right = NativeSearch(*made)
        for given, wanted in [
            *((given, asked) for given in variants(made)),
            *((None, wanted) for wanted in variants(asked)),
        ]:
            try:
                engine = NativeSearch(*given) if given else right
                found = engine.search(*wanted)
            except Exception:
                refused += 1
                continue
            assert all(len(tokens) <= wanted[3] for some in found for _, tokens in some)
            translated += 1
    print(f"{refused} refused, {translated} translated")


main(sys.argv[1:])
