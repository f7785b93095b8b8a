#!/usr/bin/env python3
"""Fit the polynomials of the C++ engine, by Remez' algorithm.

Prints their coefficients, the constant one first, and the largest error. test_engines.py
compares it with the engine's.
"""

from collections.abc import Callable
from math import erfc, exp, log, sqrt

import numpy as np


def remez(function: Callable, weight: Callable, low: float, high: float, powers: range):
    """The coefficients of *powers* whose largest *weight* times error is least from *low* to
    *high*, and that error."""
    grid = np.linspace(low, high, 20000)  # none is 0, where a weight is
    wanted, weights = (np.array([f(x) for x in grid]) for f in (function, weight))
    count = len(powers) + 1
    # the extrema of a Chebyshev polynomial are near those of the error
    nodes = np.rint((1 - np.cos(np.pi * (np.arange(count) + 0.5) / count)) * 9999.5).astype(int)
    terms = grid[:, None] ** np.array(powers)
    for _ in range(20):
        signs = (-1.0) ** np.arange(count) / weights[nodes]
        solved = np.linalg.solve(np.column_stack([terms[nodes], signs]), wanted[nodes])
        error = weights * (terms @ solved[:-1] - wanted)
        parts = np.split(np.arange(len(grid)), np.flatnonzero(np.diff(np.sign(error))) + 1)
        nodes = np.array([part[np.argmax(np.abs(error[part]))] for part in parts])
        while len(nodes) > count:
            ends = np.abs(error[nodes[[0, -1]]])
            nodes = nodes[1:] if ends[0] < ends[1] else nodes[:-1]
    return solved[:-1], np.abs(error).max()


def fits() -> dict[str, tuple[np.ndarray, float]]:
    """The polynomials by their names in the engine, as float32, and the error of each."""
    half = log(2) / 2  # of exp(n ln 2 + r) = 2^n exp(r)

    # exp(r) = 1 + r + r^2 p(r); the relative error counts. The series near 0 cancels nothing.
    def rest(r):
        return 1 / 2 + r / 6 + r * r / 24 if abs(r) < 1e-4 else (exp(r) - 1 - r) / r**2

    # gelu(x) = max(x, 0) - |x| / 2 erfc(|x| / sqrt 2), with erfc(t / sqrt 2) = exp(t p(t)):
    # the error of the second term counts
    def slope(t):
        return log(erfc(t / sqrt(2))) / t

    fitted = {
        "EXPONENTIAL": remez(rest, lambda r: r * r * exp(-r), -half, half, range(5)),
        "GELU_TAIL": remez(slope, lambda t: t * t / 2 * erfc(t / sqrt(2)), 1e-3, 7, range(8)),
    }
    return {name: (found.astype(np.float32), error) for name, (found, error) in fitted.items()}


if __name__ == "__main__":
    for name, (coefficients, error) in fits().items():
        print(f"{name}: {', '.join(f'{x:.9g}f' for x in coefficients)}; error {error:.2g}")
