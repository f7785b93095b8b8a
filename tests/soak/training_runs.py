"""Short trainings by fairseq's own trainer, in this process, and whether they diverged."""

import math
import sys
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, List, Optional, Sequence
from unittest import mock

import torch
from cli import CRITERION, ROOT, call
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import metrics
from fairseq.trainer import Trainer

from resmlp_mt.compat import divergence
from resmlp_mt.errors import UserError

sys.path.append(str(ROOT / "examples" / "quickstart"))
import grammar

LONGEST = 10  # words of a sentence
POSITIONS = 32
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
    """Adagrad at *rate* after a linear warm-up; *layers* on each side.

    Attributes:
        mixing: --token-mixing.
        scale: --layerscale-init.
    """

    layers: int
    rate: float
    warm_up: int
    updates: int
    channels: int = 64
    mixing: str = "linear"
    scale: float = 0.2

    def __str__(self) -> str:
        warm_up = f"warm-up {self.warm_up:,}" if self.warm_up else "no warm-up"
        parts = [f"{self.layers} layers", f"{self.channels} channels"]
        parts += [self.mixing] * (self.mixing != Recipe.mixing)
        parts += [f"LayerScale {self.scale:g}"] * (self.scale != Recipe.scale)
        return ", ".join([*parts, f"rate {self.rate:g}", warm_up])

    def words(self, data: Path, save_dir: Path) -> List[str]:
        """fairseq-train's command line."""
        words = [data, "--arch", "resmlp_mt_6", "--save-dir", save_dir, "--no-save", *CRITERION]
        for side in ("encoder", "decoder"):
            words += [f"--{side}-layers", self.layers, f"--{side}-embed-dim", self.channels]
            words += [f"--{side}-ffn-embed-dim", 2 * self.channels]
            words += [f"--{side}-attention-heads", 4]
        words += ["--max-source-positions", POSITIONS, "--max-target-positions", POSITIONS]
        words += ["--share-all-embeddings", "--dropout", 0.15]
        words += ["--token-mixing", self.mixing, "--layerscale-init", self.scale]
        words += ["--optimizer", "adagrad", "--lr", self.rate, "--lr-scheduler", "fixed"]
        words += ["--warmup-updates", self.warm_up, "--max-update", self.updates]
        words += ["--batch-size", 16, "--num-workers", 0, "--cpu"]
        return [str(word) for word in words]


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


def train(recipe: Recipe, data: Path, save_dir: Path, seed: int = 1) -> Curve:
    """Train until the recipe's number of updates, or until it has diverged."""
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, recipe.words(data, save_dir))
    cfg = convert_namespace_to_omegaconf(args)
    torch.manual_seed(seed)
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
