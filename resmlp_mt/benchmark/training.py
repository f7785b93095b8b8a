"""``benchmark train``: full training steps of both models in turn.

A step is the forward pass with label-smoothed loss (0.1), the backward pass and a step of
Adagrad: ``torch.optim.Adagrad``, which is what ``fairseq-train --optimizer adagrad`` runs.
"""

import time
from typing import Dict, List

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from tqdm import tqdm

from resmlp_mt.benchmark.models import Pair
from resmlp_mt.benchmark.report import Report, Table, counted
from resmlp_mt.benchmark.sentences import Sentences
from resmlp_mt.benchmark.timing import (
    Spread,
    alternate,
    column,
    number,
    spread,
    spread_text,
    synchronizer,
)
from resmlp_mt.benchmark.work import multiply_adds

PHASES = ("forward", "backward", "optimizer")
SMOOTHING = 0.1


def loss_of(model, task, batch: dict) -> torch.Tensor:
    """The mean label-smoothed loss of a batch."""
    criterion = LabelSmoothedCrossEntropyCriterion(task, False, SMOOTHING)
    loss, size, _ = criterion(model, batch)
    return loss / size


class TrainingStep:
    """One step at each call. ``phases`` has the seconds of each step so far, by phase."""

    def __init__(self, model, task, batch: dict, device: str):
        self.model, self.task, self.batch = model.train(), task, batch
        self.optimizer = torch.optim.Adagrad(model.parameters(), lr=1e-4)
        self.synchronize = synchronizer(device)
        self.phases: List[Dict[str, float]] = []

    def _now(self) -> float:
        self.synchronize()
        return time.perf_counter()

    def __call__(self) -> None:
        times = [self._now()]
        loss = loss_of(self.model, self.task, self.batch)
        times.append(self._now())
        loss.backward()
        times.append(self._now())
        self.optimizer.step()
        self.optimizer.zero_grad()
        times.append(self._now())
        self.phases.append({p: b - a for p, a, b in zip(PHASES, times, times[1:])})


def measure(pair: Pair, models: list, batch: dict, args, bar: tqdm) -> dict:
    """Train both models on one batch. Returns the numbers as JSON values."""
    steps = {
        name: TrainingStep(model, pair.task, batch, args.device)
        for name, model in zip(pair.names, models)
    }
    synchronize = synchronizer(args.device)
    seconds = alternate(steps, args.warmup, args.repeats, synchronize, after_each=bar.update)
    phases = {name: step.phases[-args.repeats :] for name, step in steps.items()}
    work = {name: multiply_adds(step) for name, step in steps.items()}
    sentences, source = batch["net_input"]["src_tokens"].shape
    line = {
        "sentences": sentences,
        "source_tokens": source,
        "target_tokens": batch["target"].size(1),
        "tokens": batch["ntokens"],
        "columns": {},
    }
    baseline = pair.names[1]
    for name, taken in seconds.items():
        by_phase = {phase: spread([step[phase] for step in phases[name]]) for phase in PHASES}
        line["columns"][name] = {
            **column(taken, seconds[baseline], batch["ntokens"], 1),
            "ms_by_phase": {k: value.scaled(1000)._asdict() for k, value in by_phase.items()},
            "counted": {"multiply_adds": work[name], "speed": work[baseline] / work[name]},
        }
    return line


def table(line: dict) -> Table:
    rows = []
    for name, found in line["columns"].items():
        phases = [found["ms_by_phase"][phase]["median"] for phase in PHASES]
        rows.append(
            [
                name,
                number(found["tokens_per_second"]),
                spread_text(Spread(**found["ms_a_step"])),
                " / ".join(f"{100 * phase / sum(phases):.0f}%" for phase in phases),
                spread_text(Spread(**found["speed"])),
                number(found["counted"]["speed"]),
            ]
        )
    return Table(
        f"Training: {counted(line['sentences'], 'sentence pair')}, padded to "
        f"{line['source_tokens']} source and {line['target_tokens']} target tokens "
        f"({line['tokens']} target tokens)",
        ["", "tokens/s", "ms a step", "forward / backward / optimizer", "speed", "counted"],
        rows,
    )


def main(args) -> Report:
    """One batch for each target length."""
    pair = Pair(args, args.source_length + 1, max(args.target_length) + 1)
    sentences, models = Sentences(pair.task, args), pair.models()
    total = len(args.target_length) * 2 * (args.warmup + args.repeats)
    with tqdm(total=total, unit="step", disable=None) as bar:
        lines = []
        for words in args.target_length:
            batch = sentences.training_batch(args.tokens, args.source_length, words)
            lines.append(measure(pair, models, batch, args, bar))
    tables = [table(line) for line in lines]
    tables[-1].notes += [
        "one step: label-smoothed loss, backward pass, Adagrad (torch.optim, as in fairseq)",
        f"speed: how many times as fast as {pair.names[1]}: median (lowest .. highest)",
        "counted: what the speed would be if every multiply-add took the same time",
    ]
    optimizer = {"optimizer": "torch.optim.Adagrad", "label_smoothing": SMOOTHING}
    return Report({"models": pair.describe(), **optimizer, "lines": lines}, tables)
