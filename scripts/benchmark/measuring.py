"""Time systems in turn, and print the results."""

import time
from collections.abc import Callable
from statistics import median

import torch
from results import spread

Runs = dict[str, Callable[[], object]]


def alternate(runs: Runs, repeats: int) -> dict[str, list[float]]:
    """Seconds per run, by system: A B A B ... Each has run once before."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for _ in range(repeats):
        for name, run in runs.items():
            wait()
            start = time.perf_counter()
            run()
            wait()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def timed(runs: Runs, repeats: int, steps: int) -> dict[str, dict]:
    """By system: milliseconds per step, speed-up over the Transformer.

    The speed-up is the ratio of times taken right after each other, so that a slow phase of the
    machine slows both.
    """
    seconds = alternate(runs, repeats)
    found, width = {}, max(map(len, runs))
    for name, ours in seconds.items():
        milliseconds = middle([1000 * taken / steps for taken in ours])
        speed = middle([theirs / taken for theirs, taken in zip(seconds["transformer"], ours)])
        found[name] = {"ms_per_step": milliseconds, "speed": speed}
        print(f"{name:{width}}  {spread(milliseconds)} ms, speed-up {spread(speed)}")
    return found


def middle(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "low": min(values), "high": max(values)}
