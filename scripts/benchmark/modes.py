"""Decoding steps and training steps."""

import os
import warnings
from argparse import Namespace
from functools import partial

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from measuring import timed
from models import Models
from systems import engines, exported, in_ctranslate2, in_fairseq, parts
from torch import Tensor

from resmlp_mt.errors import UserError
from resmlp_mt.loss import AUTOCAST
from resmlp_mt.muon import Muon, mark_matrices


def decode(args) -> dict:
    """Translate the same sentences into each target length."""
    models = Models(args)
    batch = models.batch(args.sentences, args.source_length)
    systems = {name: in_fairseq(models.build(name), models, batch) for name in models.options}
    for name in models.ours:
        if args.parts:
            systems |= parts(name, models, batch)
        for engine in engines(args.graph):
            for precision in args.exported:
                label, graph = f"{name}, {engine} {precision}", engine == "graph"
                systems[label] = exported(name, precision, models, batch, graph)
    systems |= {f"CTranslate2 {p}": in_ctranslate2(p, models, batch) for p in args.ctranslate2}
    lines = []
    for length in args.target_length:
        for name, translate in systems.items():
            if translate(length) != {length}:
                raise UserError(f"{name} does not write {length} tokens")
        runs = {name: partial(translate, length) for name, translate in systems.items()}
        title = f"Decoding {args.sentences} x {args.beam} hypotheses, {length} tokens"
        tokens = args.sentences * (length + 1)
        columns = timed(title, runs, args, tokens, length + 1)
        lines.append({"target_tokens": length, "columns": columns})
    return {
        "sentences": args.sentences,
        "beam": args.beam,
        "source_tokens": args.source_length,
        "models": models.sizes(),
        "lines": lines,
    }


def train(args) -> dict:
    """A step is fairseq's: the forward pass with label-smoothed loss, the backward pass and the
    optimizer's, Adagrad's as in the paper or Muon's as in our recipe. bfloat16 is --precision bf16:
    weights stay float32."""
    models = Models(args)
    built = {name: models.build(name) for name in models.options}
    os.environ[AUTOCAST] = args.dtype if args.dtype == "bfloat16" else ""
    if args.dtype == "bfloat16":
        built = {name: model.float() for name, model in built.items()}
    optimizers = {name: optimizer_of(model, args.optimizer) for name, model in built.items()}
    criterion = LabelSmoothedCrossEntropyCriterion(models.task, False, 0.1)
    through_fairseq = Namespace(backward=Tensor.backward)
    warnings.simplefilter("ignore", FutureWarning)  # fairseq's own

    def step(name: str, batch: dict) -> None:
        models.task.train_step(batch, built[name], criterion, through_fairseq, 0)
        optimizers[name].step()
        optimizers[name].zero_grad()

    lines = []
    for length in args.target_length:
        batch = models.training_batch(args.source_length, length)
        runs = {name: partial(step, name, batch) for name in built}
        for run in runs.values():
            run()
        title = f"Training, {batch['ntokens']:,} target tokens per step"
        columns = timed(title, runs, args, batch["ntokens"], 1)
        setting = {"tokens_per_step": batch["ntokens"], "target_tokens": length}
        lines.append({**setting, "columns": columns})
    return {
        "source_tokens": args.source_length,
        "optimizer": args.optimizer,
        "models": models.sizes(),
        "lines": lines,
    }


def optimizer_of(model, name: str) -> torch.optim.Optimizer:
    if name == "adagrad":
        return torch.optim.Adagrad(model.parameters(), lr=1e-4)
    mark_matrices(model)
    return Muon(model.parameters(), lr=1e-4, weight_decay=0.0)
