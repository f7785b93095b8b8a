"""Several programs timed in turn, and how their numbers are written."""

import time
from statistics import median
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence


class Spread(NamedTuple):
    """The middle and the ends of some repeated measurements."""

    median: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Spread":
        return Spread(*(factor * value for value in self))


def spread(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def ratio(others: Sequence[float], ours: Sequence[float]) -> Spread:
    """*others* divided by *ours*, repeat by repeat.

    Both of a pair were measured right after each other: a machine that is slow for a while is slow
    for both.
    """
    return spread([other / our for other, our in zip(others, ours, strict=True)])


def column(taken: List[float], baseline: List[float], tokens: int, steps: int) -> dict:
    """The numbers of one system, as JSON values.

    Args:
        taken, baseline: seconds of its repeats, and of those of the baseline.
        tokens, steps: made in each repeat.
    """
    return {
        "seconds": taken,
        "tokens_per_second": tokens / spread(taken).median,
        "ms_a_step": spread(taken).scaled(1000 / steps)._asdict(),
        "speed": ratio(baseline, taken)._asdict(),
    }


def number(value: Optional[float]) -> str:
    """A number with about three significant digits, or a dash for None."""
    if value is None:
        return "-"
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def spread_text(value: Spread) -> str:
    """``median (low .. high)``."""
    return f"{number(value.median)} ({number(value.low)} .. {number(value.high)})"


def nothing(*_) -> None:
    """Do nothing."""


def synchronizer(device: str) -> Callable[[], None]:
    """A function that waits for the work given to *device*. The CPU needs no waiting."""
    if device != "cuda":
        return nothing
    import torch  # the tables of results need this file, and no torch

    return torch.cuda.synchronize


def alternate(
    runs: Dict[str, Callable[[], object]],
    warmup: int,
    repeats: int,
    synchronize: Callable[[], None] = nothing,
    after_each: Callable[[], object] = nothing,
) -> Dict[str, List[float]]:
    """Run all in turn, A B A B ...

    Args:
        runs: what to time, by name.
        warmup: rounds that are not timed.
        repeats: rounds that are.
        synchronize: waits for the device, before and after each run.
        after_each: called after every run, outside its time.

    Returns:
        the seconds of each, one number a repeat.
    """
    seconds: Dict[str, List[float]] = {name: [] for name in runs}
    for round_number in range(warmup + repeats):
        for name, run in runs.items():
            synchronize()
            start = time.perf_counter()
            run()
            synchronize()
            taken = time.perf_counter() - start
            if round_number >= warmup:
                seconds[name].append(taken)
            after_each()
    return seconds
