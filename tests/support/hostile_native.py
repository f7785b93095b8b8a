"""``hostile_native.py LIBRARY FOLDER ...``, under AddressSanitizer: what hostile folders and users
may give. Each array, number and option is changed in turn; it is refused, or translated with."""

import sys
from pathlib import Path
from unittest import mock

import numpy as np

from resmlp_mt_runtime import Model, UserError, folder, model, native

SOURCES = [["a", "▁the", "▁"], ["x"], ["▁red", "▁dog"]]
SEARCH = {"beam": 4, "lenpen": 1.0, "max_len_a": 0.5, "max_len_b": 9, "no_repeat_ngram_size": 2}


def variants(x):
    """*x* with one array or number changed, or with an entry less."""
    if isinstance(x, np.ndarray):  # other shapes, types and order in memory
        yield from (np.repeat(x, 2, axis) for axis in range(x.ndim))
        yield from (np.delete(x, 0, axis) for axis in range(x.ndim))
        yield from (np.take(x, [0], axis) for axis in range(x.ndim))
        yield from (x.ravel(), x[None], x[:0], x.T, x[::-1], x.copy("F"), x.astype(np.float64))
        with np.errstate(all="ignore"):
            yield from (x.astype(np.int8), (x * 1e38).astype(x.dtype), (x * np.nan).astype(x.dtype))
    elif type(x) in (int, float):
        yield from (0, -1, 1 << 31, 1 << 63, 2.5, "x", None, True)
        yield from (x - 1, x + 1, 2 * x, (1 << 32) + x)
    elif isinstance(x, (list, tuple)):
        for i, entry in enumerate(x):
            yield from ([*x[:i], other, *x[i + 1 :]] for other in variants(entry))
    elif isinstance(x, dict):
        for name, entry in x.items():
            yield {other: x[other] for other in x if other != name}
            yield from ({**x, name: other} for other in variants(entry))


def main(library, *folders):
    refused = translated = 0
    loaded = native.load_library(Path(library).parent)
    for path in folders:
        right = folder.read_export(path)
        arrays = {name: x.copy() for name, x in right.arrays.items()}
        for config, changed, search in variants((right.config, arrays, SEARCH)):
            try:
                folder.check_config(config)
                folder.check_arrays(changed, config)
                export = right._replace(config=config, arrays=changed)
                given = {"read_export": lambda _, e=export: e, "load_library": lambda: loaded}
                with mock.patch.multiple(model, **given):
                    engine = Model(path, "native", threads=1)
                found = list(engine.translations(SOURCES, [["▁red"], [], ["a"]], **search))
                engine.score_pieces(SOURCES, SOURCES)
            except UserError as error:
                assert "\n" not in str(error) and len(str(error)) < 300, error
                refused += 1
                continue
            most = config["positions"][1] - 1
            assert all(len(o.pieces) <= most for part in found for b in part.values() for o in b)
            translated += 1
    print(f"{refused} refused, {translated} translated")


main(*sys.argv[1:])
