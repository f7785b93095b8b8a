#!/usr/bin/env python3
"""The paper's learning rate with and without warm-up, at 6, 12 and 24 layers: does it diverge?

    python tests/soak/stability.py

The trainer of fairseq, Adagrad, LayerScale 0.2, short made-up sentences. A training has diverged if
it meets NaN or infinite numbers, or if its last losses are above its first. Beside the schedule of
the paper, of which 1,000 updates are a small part, there is one that reaches the peak. Both must
hold. Wherever another diverges, the plugin must have warned.
"""

import math
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import List, Optional
from unittest import mock

import soaking
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.trainer import Trainer
from fairseq_programs import ROOT, preprocess, training

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes import trainings as divergence

sys.path.append(str(ROOT / "examples" / "quickstart"))
import grammar

DEPTHS = (6, 12, 24)  # layers on each side
RATE, PAPER_WARM_UP, SHORT_WARM_UP = 0.2, 32_000, 400
UPDATES, PEAK_UPDATES = 1000, 600
WARM_UPS = (0, 10, 30, 100, 300)  # tried at the paper's rate
RATES = (0.05, 0.02, 0.01)  # tried without warm-up
PAST_THE_PEAK = 110  # updates
WIDE, WIDE_UPDATES = 512, 15  # the paper's channels; where it diverged, it did within six
LONGEST = 10  # words of a sentence
END = 20  # updates at the end of a run over which its loss is averaged; of short ones a third


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


MUST_HOLD = [Recipe(n, RATE, PAPER_WARM_UP, UPDATES) for n in DEPTHS]
MUST_HOLD += [Recipe(n, RATE, SHORT_WARM_UP, PEAK_UPDATES) for n in DEPTHS]
OTHERS = [Recipe(n, RATE, warm_up, warm_up + PAST_THE_PEAK) for warm_up in WARM_UPS for n in DEPTHS]
OTHERS += [Recipe(n, rate, 0, PAST_THE_PEAK) for rate in RATES for n in DEPTHS]
OTHERS += [Recipe(DEPTHS[0], rate, 0, WIDE_UPDATES, WIDE) for rate in RATES]


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
    def last_loss(self) -> float:
        """The mean of the last losses, see :data:`END`."""
        recent = self.losses[-max(1, min(END, len(self.losses) // 3)) :]
        return sum(recent) / len(recent)

    @property
    def diverged(self) -> bool:
        """Numbers that are not finite, or a loss that ends above its first value."""
        return self.not_finite is not None or self.last_loss > self.losses[0]

    def summary(self) -> dict:
        """The numbers, as JSON values."""
        return {
            **vars(self.recipe),
            "done": len(self.losses),
            "first_loss": self.losses[0],
            "highest_loss": max(self.losses),
            "last_loss": round(self.last_loss, 3),
            "last_rate": self.last_rate,
            "not_finite": self.not_finite,
            "diverged": self.diverged,
            "warned": self.warned,
        }


def prepare(folder: Path, pairs: int = 600) -> Path:
    """Short English-German pairs of the quickstart's grammar, binarized; returns their folder."""
    drawn = grammar.generate(1, {"train": 8 * pairs})["train"]
    short = [pair for pair in drawn if max(len(side.split()) for side in pair) <= LONGEST][:pairs]
    for language, side in zip(("en", "de"), zip(*short)):
        (folder / f"train.{language}").write_text("".join(f"{line}\n" for line in side), "utf-8")
    return preprocess(folder / "bin", source="en", target="de", train=folder / "train")


def train(recipe: Recipe, data: Path, save_dir: Path) -> Curve:
    """Train until the recipe's number of updates, or until something is not finite."""
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
    while len(curve.losses) < recipe.updates and curve.not_finite is None:
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
        if len(curve.losses) == curve.recipe.updates:
            return


def failures(curve: Curve) -> List[str]:
    """A line for each thing that must not be."""
    lost = []
    if curve.diverged and curve.recipe in MUST_HOLD:
        lost.append(f"{curve.recipe}: diverged")
    elif curve.diverged and not curve.warned:
        lost.append(f"{curve.recipe}: diverged without a warning")
    if curve.not_finite and not curve.not_finite.startswith("gradients"):
        lost.append(f"{curve.recipe}: the trainer of fairseq went on with {curve.not_finite}")
    return lost


def main() -> None:
    torch.set_num_threads(1)
    curves, lost = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = prepare(folder)
        for recipe in [*MUST_HOLD, *OTHERS]:
            curve = train(recipe, data, folder)
            end = f"diverged ({curve.not_finite or 'loss'})" if curve.diverged else "trained"
            print(f"{recipe}: {end}, warned: {curve.warned}", flush=True)
            curves.append(curve)
            lost += failures(curve)
    soaking.record(
        "stability",
        f"Adagrad at the rate of the paper, {RATE}, does not diverge at "
        f"{', '.join(map(str, DEPTHS))} layers, LayerScale 0.2, in {UPDATES:,} updates "
        f"of its warm-up of {PAPER_WARM_UP:,} nor in {PEAK_UPDATES:,} with one of {SHORT_WARM_UP}. "
        "Wherever a training with less warm-up or none diverged, the plugin had warned "
        "(64 channels, short made-up sentences, one seed)",
        f"{len(curves)} trainings, {sum(len(c.losses) for c in curves):,} updates",
        lost,
        {"trainings": [curve.summary() for curve in curves]},
    )


if __name__ == "__main__":
    sys.exit(run_main(main))
