#!/usr/bin/env python3
"""The paper's learning rate with and without warm-up, at 6, 12 and 24 layers: does it diverge?

    python tests/soak/stability.py

The trainer of fairseq, Adagrad, LayerScale 0.2, 64 channels, short made-up sentences. A training
has diverged if it meets NaN or infinite numbers, or its loss stays above its first value for 100
updates in a row or ends above it. Beside the paper's schedule, of which 1,000 updates are a small
part, one that reaches the peak; then, by bisection, where the limits are.
"""

import math
import sys
import tempfile
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, List, Optional, Sequence
from unittest import mock

import soaking
import torch
from cli import ROOT, call, training
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.trainer import Trainer

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.compat import divergence
from resmlp_mt.errors import UserError

sys.path.append(str(ROOT / "examples" / "quickstart"))
import grammar

DEPTHS = (6, 12, 24)  # layers on each side
RATE, PAPER_WARM_UP, SHORT_WARM_UP = 0.2, 32_000, 400
UPDATES, PEAK_UPDATES = 1000, 600
WARM_UPS = (0, 10, 30, 100, 300)  # from the one most likely to diverge
RATES = (0.1, 0.05, 0.02, 0.01, 0.005)
WIDE = 512  # the paper's channels
WIDE_UPDATES = 15  # where it diverged, it did within six
LONGEST = 10  # words of a sentence
PATIENCE = 100  # so many updates in a row above the first loss are a divergence
END = 20  # updates at the end of a run over which its loss is averaged; of short ones a third


def prepare(folder: Path, pairs: int = 600) -> Path:
    """Short English-German pairs of the quickstart's grammar, binarized; returns their folder."""
    drawn = grammar.generate(1, {"train": 8 * pairs})["train"]
    short = [pair for pair in drawn if max(len(side.split()) for side in pair) <= LONGEST][:pairs]
    for language, side in zip(("en", "de"), zip(*short)):
        (folder / f"train.{language}").write_text("".join(f"{line}\n" for line in side))
    call(
        "preprocess",
        *("--source-lang", "en", "--target-lang", "de", "--joined-dictionary", "--workers", 1),
        *("--trainpref", folder / "train", "--destdir", folder / "bin"),
    )
    return folder / "bin"


@dataclass(frozen=True)
class Recipe:
    """Adagrad at *rate* after a linear warm-up; *layers* on each side."""

    layers: int
    rate: float
    warm_up: int
    updates: int
    channels: int = 64

    def __str__(self) -> str:
        warm_up = f"warm-up {self.warm_up:,}" if self.warm_up else "no warm-up"
        return f"{self.layers} layers, {self.channels} channels, rate {self.rate:g}, {warm_up}"

    def words(self, data: Path, save_dir: Path) -> List[str]:
        """The command line of fairseq-train."""
        words = ("--arch", "resmlp_mt_6", "--encoder-layers", self.layers, "--decoder-layers")
        words += (self.layers, "--encoder-embed-dim", self.channels, "--encoder-ffn-embed-dim")
        words += (2 * self.channels, "--decoder-attention-heads", 4, "--share-all-embeddings")
        words += ("--dropout", 0.15, "--layerscale-init", 0.2, "--lr", self.rate, "--no-save")
        words += ("--warmup-updates", self.warm_up, "--max-update", self.updates)
        words += ("--batch-size", 16)
        return [str(word) for word in training(data, save_dir, *words)]


@dataclass
class Curve:
    """What came of a training.

    Attributes:
        recipe: its options.
        losses: of each update, in bits a word, label smoothing included.
        not_finite: what was not finite, in words; None if all was.
        last_rate: the learning rate of the last update.
        warned: whether the plugin said beforehand that it is likely to diverge.
    """

    recipe: Recipe
    losses: List[float] = field(default_factory=list)
    not_finite: Optional[str] = None
    last_rate: float = 0.0
    warned: bool = False

    @property
    def exploded(self) -> bool:
        """Whether the last :data:`PATIENCE` losses are all above the first."""
        recent = self.losses[-PATIENCE:]
        return len(self.losses) > PATIENCE and min(recent) > self.losses[0]

    @property
    def last_loss(self) -> float:
        """The mean of the last losses, see :data:`END`."""
        recent = self.losses[-max(1, min(END, len(self.losses) // 3)) :]
        return sum(recent) / len(recent)

    @property
    def ended_above(self) -> bool:
        """Whether the run is finished, and its last losses are above its first on average."""
        return len(self.losses) == self.recipe.updates and self.last_loss > self.losses[0]

    @property
    def diverged(self) -> bool:
        """Numbers that are not finite, or a loss that stays or ends above its first value."""
        return self.not_finite is not None or self.exploded or self.ended_above

    def summary(self) -> dict:
        """The numbers, as JSON values."""
        return {
            **vars(self.recipe),
            "done": len(self.losses),
            "first_loss": self.losses[0],
            "highest_loss": max(self.losses),
            "highest_at_update": 1 + self.losses.index(max(self.losses)),
            "last_loss": round(self.last_loss, 3),
            "last_rate": self.last_rate,
            "not_finite": self.not_finite,
            "diverged": self.diverged,
            "warned": self.warned,
        }


def train(recipe: Recipe, data: Path, save_dir: Path) -> Curve:
    """Train until the recipe's number of updates, or until it has diverged."""
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, recipe.words(data, save_dir))
    cfg = convert_namespace_to_omegaconf(args)
    torch.manual_seed(1)
    metrics.reset()
    task = tasks.setup_task(cfg.task)
    task.load_dataset("train")
    trainer = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
    curve = Curve(recipe)
    with mock.patch.object(divergence.logger, "warning") as warning:
        batches = trainer.get_train_iterator(epoch=1)
        trainer.begin_epoch(1)  # the optimizer is made
    curve.warned = warning.called
    while len(curve.losses) < recipe.updates and not curve.diverged:
        _epoch(trainer, batches, curve)
    if curve.not_finite is None and not all(p.isfinite().all() for p in trainer.model.parameters()):
        curve.not_finite = "weights after the last update"
    return curve


def _epoch(trainer: Trainer, batches, curve: Curve) -> None:
    pass_over_data = batches.next_epoch_itr()
    trainer.begin_epoch(batches.epoch)
    for batch in pass_over_data:
        curve.last_rate = trainer.get_lr()
        try:
            loss = trainer.train_step([batch])["loss"]
        except UserError as error:  # fairseq looks at every gradient
            curve.not_finite = f"{error.__cause__}, update {len(curve.losses) + 1}"
            return
        if not math.isfinite(loss):
            curve.not_finite = f"loss, update {len(curve.losses) + 1}"
            return
        curve.losses.append(loss)
        if len(curve.losses) == curve.recipe.updates or curve.exploded:
            return


def least_stable(values: Sequence, diverges: Callable[[object], bool]):
    """The first of *values* that does not diverge, found by bisection; None if all do.

    Args:
        values: from the one most likely to diverge to the one least likely.
        diverges: called for some of them.
    """
    place = bisect_left(values, True, key=lambda value: not diverges(value))
    return values[place] if place < len(values) else None


class Soak:
    """All trainings, each printed when it is done.

    Args:
        folder: for the data. Nothing is left there.

    Attributes:
        curves: of all trainings so far.
    """

    def __init__(self, folder: Path):
        self.data, self.folder = prepare(folder), folder
        self.curves: List[Curve] = []

    def train(self, layers: int, rate: float, warm_up: int, updates: int, channels=64) -> Curve:
        recipe = Recipe(layers, rate, warm_up, updates, channels)
        curve = train(recipe, self.data, self.folder)
        self.curves.append(curve)
        end = f"diverged ({curve.not_finite or 'loss'})" if curve.diverged else "trained"
        print(f"{recipe}: {end}, {curve.summary()}", flush=True)
        return curve

    def schedules(self, warm_up: int, updates: int) -> List[Curve]:
        """Each depth at the paper's rate."""
        return [self.train(layers, RATE, warm_up, updates) for layers in DEPTHS]

    def shortest_warm_up(self, layers: int, rate: float) -> Optional[int]:
        """Of :data:`WARM_UPS`, the first with which *rate* does not diverge."""
        return least_stable(
            WARM_UPS, lambda n: self.train(layers, rate, n, n + PATIENCE + 10).diverged
        )

    def highest_rate(self, layers: int, updates=PATIENCE + 10, channels=64) -> Optional[float]:
        """Of :data:`RATES`, the highest that does not diverge without warm-up."""
        return least_stable(
            RATES, lambda rate: self.train(layers, rate, 0, updates, channels).diverged
        )


def failures(curves: List[Curve], must_hold: List[Curve]) -> List[str]:
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
    torch.set_num_threads(1)
    limits: Dict[str, object] = {"tried": {"warm_ups": WARM_UPS, "rates": RATES}}
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder))
        must_hold = soak.schedules(PAPER_WARM_UP, UPDATES)
        must_hold += soak.schedules(SHORT_WARM_UP, PEAK_UPDATES)
        soak.schedules(0, UPDATES)
        for rate in (RATE, 0.05):
            found = {layers: soak.shortest_warm_up(layers, rate) for layers in DEPTHS}
            limits[f"shortest warm-up at rate {rate}, by layers"] = found
        found = {layers: soak.highest_rate(layers) for layers in DEPTHS}
        limits["highest rate without warm-up, by layers"] = found
        wide = soak.highest_rate(DEPTHS[0], WIDE_UPDATES, WIDE)
        limits[f"highest rate without warm-up, {DEPTHS[0]} layers of {WIDE} channels"] = wide
    soaking.record(
        "stability",
        f"Adagrad at the paper's rate of {RATE} does not diverge at "
        f"{', '.join(map(str, DEPTHS))} layers, LayerScale 0.2, in {UPDATES:,} updates "
        f"of its warm-up of {PAPER_WARM_UP:,} nor in {PEAK_UPDATES:,} with one of {SHORT_WARM_UP}; "
        "wherever a training with less warm-up or none diverged, the plugin had warned "
        "(64 channels, short made-up sentences, one seed)",
        f"{len(soak.curves)} trainings, {sum(len(c.losses) for c in soak.curves):,} updates",
        failures(soak.curves, must_hold),
        {"limits": limits, "trainings": [curve.summary() for curve in soak.curves]},
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
