#!/usr/bin/env python3
"""The paper's learning rate with and without warm-up, at 6, 12 and 24 layers: does it diverge?

    python tests/soak/stability.py [--quick --results DIR]

fairseq's trainer, Adagrad, LayerScale 0.2, 64 channels, short made-up sentences. A training has
diverged if its numbers are no longer finite, or its loss stays above its first value for 100
updates in a row or ends above it. Beside the paper's schedule, of which 1,000 updates are a small
part, one that reaches the peak; then, by bisection, where the limits are.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import soaking
import torch
from training_runs import PATIENCE, Curve, Recipe, least_stable, prepare, train

from resmlp_mt.cli.terminal import run_main

RATE, PAPER_WARM_UP, SHORT_WARM_UP = 0.2, 32_000, 400
WARM_UPS = (0, 10, 30, 100, 300)  # from the one most likely to diverge
RATES = (0.1, 0.05, 0.02, 0.01, 0.005)
WIDE = 512  # the paper's channels
WIDE_UPDATES = 15  # where it diverged, it did within six


class Soak:
    """All trainings, each printed when it is done.

    Args:
        folder: for the data; nothing is left there.
        depths: layers on each side.
        updates: of a training on the paper's schedule.
        channels: C.
    """

    def __init__(self, folder: Path, depths, updates: int, channels: int = 64):
        self.data, self.folder = prepare(folder), folder
        self.depths, self.updates, self.channels = depths, updates, channels
        self.curves = []

    def train(self, layers, rate, warm_up, updates, channels=None) -> Curve:
        recipe = Recipe(layers, rate, warm_up, updates, channels or self.channels)
        curve = train(recipe, self.data, self.folder)
        self.curves.append(curve)
        end = f"diverged ({curve.not_finite or 'loss'})" if curve.diverged else "trained"
        numbers = curve.summary()
        print(
            f"{recipe}: {end}, {numbers['done']} updates, loss {numbers['first_loss']:.2f}, "
            f"at most {numbers['highest_loss']:.4g}, at last {numbers['last_loss']:.4g}",
            flush=True,
        )
        return curve

    def schedules(self) -> dict:
        """Each depth on the paper's schedule, on one that reaches the peak, and without warm-up."""
        peak = self.updates * 3 // 5
        warm_ups = {
            "paper": (PAPER_WARM_UP, self.updates),
            "short": (min(SHORT_WARM_UP, peak * 2 // 3), peak),
            "none": (0, self.updates),
        }
        return {
            name: [self.train(layers, RATE, *schedule) for layers in self.depths]
            for name, schedule in warm_ups.items()
        }

    def shortest_warm_up(self, layers: int, rate: float, warm_ups=WARM_UPS):
        """Of *warm_ups*, the first with which *rate* does not diverge."""
        return least_stable(
            warm_ups, lambda n: self.train(layers, rate, n, n + PATIENCE + 10).diverged
        )

    def highest_rate(self, layers: int, updates=PATIENCE + 10, channels=None, rates=RATES):
        """Of *rates*, the highest that does not diverge without warm-up."""
        return least_stable(
            rates, lambda rate: self.train(layers, rate, 0, updates, channels).diverged
        )


def failures(curves: list, must_hold: list) -> list:
    """A line for each training that diverged on a schedule that must hold, or without a warning.

    Args:
        curves: all of them.
        must_hold: those that are not to diverge.
    """
    lost = [f"{c.recipe}: diverged" for c in must_hold if c.diverged]
    for curve in curves:
        if curve.diverged and not curve.warned and not any(curve is held for held in must_hold):
            lost.append(f"{curve.recipe}: diverged without a warning")
        if curve.not_finite and not curve.not_finite.startswith("gradients"):
            lost.append(f"{curve.recipe}: fairseq's trainer went on with {curve.not_finite}")
    return lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    soaking.add_options(parser)
    args = soaking.check(parser.parse_args())
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        if args.quick:
            soak = Soak(Path(folder), (2,), 60, channels=16)
            wide_channels, warm_up_limits = 32, (10, 20)
        else:
            soak = Soak(Path(folder), (6, 12, 24), 1000)
            wide_channels, warm_up_limits = WIDE, WARM_UPS
        runs = soak.schedules()
        warm_up = {
            rate: {n: soak.shortest_warm_up(n, rate, warm_up_limits) for n in soak.depths}
            for rate in (RATE, 0.05)
        }
        rates = {n: soak.highest_rate(n) for n in soak.depths}
        wide = soak.highest_rate(soak.depths[0], WIDE_UPDATES, wide_channels)
    peak = runs["short"][0].recipe
    soaking.record(
        "stability",
        f"Adagrad at the paper's rate of {RATE} does not diverge at "
        f"{', '.join(map(str, soak.depths))} layers, LayerScale 0.2, in {soak.updates:,} updates "
        f"of its warm-up of {PAPER_WARM_UP:,} nor in {peak.updates:,} with one of {peak.warm_up}; "
        "wherever a training with less warm-up or none diverged, the plugin had warned "
        f"({soak.channels} channels, short made-up sentences, one seed)",
        f"{len(soak.curves)} trainings, {sum(len(c.losses) for c in soak.curves):,} updates",
        failures(soak.curves, runs["paper"] + runs["short"]),
        {
            "shortest_warm_up": {"tried": warm_up_limits, **warm_up},
            "highest_rate_without_warm_up": {"tried": RATES, **rates},
            f"highest_rate_without_warm_up_{wide_channels}_channels": wide,
            "trainings": [curve.summary() for curve in soak.curves],
        },
        args.results,
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
