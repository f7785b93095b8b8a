"""Time systems in turn, and print the results."""

import time
from collections.abc import Callable
from statistics import median

import torch
from results import number, spread


def alternate(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds per run, by system: A B A B ... Each has run once before."""
    now = time.perf_counter
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for _ in range(repeats):
        for name, run in runs.items():
            wait()
            start = now()
            run()
            wait()
            seconds[name].append(now() - start)
    return seconds


def timed(
    title: str,
    runs: dict[str, Callable[[], object]],
    args,
    tokens: int,
    steps: int,
) -> dict:
    """By system: tokens per second, milliseconds per step, speed-up over the Transformer.

    The speed-up is the ratio of times taken right after each other, so that a slow phase of the
    machine slows both.
    """
    seconds = alternate(runs, args.repeats)
    found, rows = {}, []
    for name, taken in seconds.items():
        of = found[name] = {
            "tokens_per_second": tokens / median(taken),
            "ms_per_step": middle([1000 * value / steps for value in taken]),
            "speed": middle([theirs / ours for theirs, ours in zip(seconds["transformer"], taken)]),
        }
        cells = [spread(of["ms_per_step"]), spread(of["speed"])]
        rows.append([name, number(of["tokens_per_second"]), *cells])
    show(title, ["", "tokens/s", "ms per step", "speed-up"], rows)
    return found


def middle(values: list[float]) -> dict:
    return {"median": median(values), "low": min(values), "high": max(values)}


def show(title: str, head: list[str], rows: list[list[str]]) -> None:
    """Print a table whose columns are as wide as their longest cell."""
    widths = [max(map(len, column)) for column in zip(head, *rows)]
    print(f"\n{title}\n")
    for first, *rest in [head, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:])]
        print("  ".join([first.ljust(widths[0]), *cells]))
