"""The functions of the C++ engine keep the errors that the fit of their polynomials reached."""

import ctypes
from math import erfc, sqrt

import numpy as np
import pytest
from exported_models import ENGINE, compiled
from fit_polynomials import fits

PROGRAM = """
#include "{engine}"
extern "C" void evaluate(const float* x, int size, float* exponential, float* gelu) {{
  typedef Step<4> Plain;
  for (int i = 0; i < size; i += 4) {{
    store(exponential + i, Plain::exponential(load<Plain::Floats>(x + i)));
    store(gelu + i, Plain::gelu(load<Plain::Floats>(x + i)));
  }}
}}
"""


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("polynomials")
    (folder / "functions.cpp").write_text(PROGRAM.format(engine=ENGINE))
    compiled(folder / "functions.cpp", folder / "functions.so")
    library = ctypes.CDLL(str(folder / "functions.so"))

    def evaluated(x):
        x = np.ascontiguousarray(x, np.float32)
        found = np.empty((2, len(x)), np.float32)
        addresses = [ctypes.c_void_p(array.ctypes.data) for array in (x, *found)]
        library.evaluate(addresses[0], len(x), *addresses[1:])
        return x.astype(np.float64), *found.astype(np.float64)

    return evaluated


def test_exponential(evaluate):
    x, found, _ = evaluate(np.linspace(-87, 88, 400_000))
    error = np.abs(found / np.exp(x) - 1)
    fitted = fits()["EXPONENTIAL"][1]
    # the fit's, and three roundings
    assert error.max() < fitted + 3 * 2**-24
    _, ends, _ = evaluate([-np.inf, -1000, 0, np.nan])
    assert 0 < ends[0] == ends[1] < 1e-37 and ends[2] == 1 and np.isnan(ends[3])


def test_gelu(evaluate):
    x, _, found = evaluate(np.linspace(-20, 20, 400_000))
    right = np.array([v / 2 * erfc(-v / sqrt(2)) for v in x])
    fitted = fits()["GELU_TAIL"][1]
    # the fit's, that of rounding the result, and that of its second term, which is at most 0.17
    assert (np.abs(found - right) < fitted + 2**-24 * np.abs(right) + 4e-8).all()
    x, _, found = evaluate(np.geomspace(7, 1e6, 4000))
    assert (found == x).all()
    x, _, found = evaluate(-np.geomspace(7, 1e6, 4000))
    assert (np.abs(found) < 1e-10).all()
    assert np.isnan(evaluate([np.nan] * 4)[2]).all()
