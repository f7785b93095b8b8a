"""Decoding steps and training steps."""

import os
import warnings
from argparse import Namespace
from functools import partial

from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.sequence_generator import SequenceGenerator
from measuring import timed
from models import Models
from systems import exported, in_ctranslate2, in_fairseq
from torch import Tensor

from resmlp_mt.loss import AUTOCAST
from resmlp_mt.muon import Muon, mark_matrices
from resmlp_mt_runtime.errors import UserError


def decode(args) -> dict:
    """All systems translate the same sentences."""
    models = Models(args)
    batch = models.batch(args.sentences)
    systems = {name: in_fairseq(models.build(name), models, batch) for name in models.options}
    for name in models.ours:
        if args.parts:
            part = partial(in_fairseq, models.build(name), models, batch, packed=False)
            systems[f"{name}, fairseq's search"] = part(search=SequenceGenerator)
            systems[f"{name}, not packed"] = part()
        for precision in args.exported:
            systems[f"{name}, native {precision}"] = exported(name, precision, models, batch)
    systems |= {f"CTranslate2 {p}": in_ctranslate2(p, models, batch) for p in args.ctranslate2}
    for name, translate in systems.items():
        if translate() != {args.length}:
            raise UserError(f"{name} does not write {args.length} tokens")
    print(f"Decoding {args.sentences} x {args.beam} hypotheses, {args.length} tokens\n")
    columns = timed(systems, args.repeats, args.length + 1)
    return {
        "sentences": args.sentences,
        "beam": args.beam,
        "source_tokens": args.length,
        "models": models.parameters,
        "lines": [{"target_tokens": args.length, "columns": columns}],
    }


def train(args) -> dict:
    """A step is fairseq's, with label-smoothed loss and Muon as in the recipe mixed. bfloat16 is
    --precision bf16: weights stay float32."""
    models = Models(args)
    built = {name: models.build(name) for name in models.options}
    os.environ[AUTOCAST] = args.dtype if args.dtype == "bfloat16" else ""
    if args.dtype == "bfloat16":
        built = {name: model.float() for name, model in built.items()}
    for model in built.values():
        mark_matrices(model)
    settings = {"lr": 1e-4, "weight_decay": 0.0}
    optimizers = {name: Muon(model.parameters(), **settings) for name, model in built.items()}
    criterion = LabelSmoothedCrossEntropyCriterion(models.task, False, 0.1)
    through_fairseq = Namespace(backward=Tensor.backward)
    warnings.simplefilter("ignore", FutureWarning)  # fairseq's own
    batch = models.batch(max(1, args.tokens // (args.length + 1)))

    def step(name: str) -> None:
        models.task.train_step(batch, built[name], criterion, through_fairseq, 0)
        optimizers[name].step()
        optimizers[name].zero_grad()

    runs = {name: partial(step, name) for name in built}
    for run in runs.values():
        run()
    print(f"Training, {batch['ntokens']:,} target tokens per step\n")
    columns = timed(runs, args.repeats, 1)
    line = {"tokens_per_step": batch["ntokens"], "target_tokens": args.length, "columns": columns}
    return {
        "source_tokens": args.length,
        "optimizer": "muon",
        "models": models.parameters,
        "lines": [line],
    }
