"""Decoding steps, training steps, and the memory of both."""

import io
import os
import pickle
import warnings
from argparse import Namespace
from functools import partial

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from measuring import show, timed
from models import Models, loss_of
from results import number
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
        columns = timed(title, runs, args, tokens, length + 1, warm=True)
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
    if args.dtype == "bfloat16":
        os.environ[AUTOCAST] = args.dtype
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


def memory(args) -> dict[str, dict]:
    """Bytes by model and length: activations that training keeps, and the decoder's state."""
    lengths, models = sorted(args.target_length), Models(args)
    source = models.batch(args.sentences, args.source_length)
    found: dict[str, dict] = {}
    for name in models.options:
        model = models.build(name)
        saved = {
            length: saved_bytes(model, models.task, models.training_batch(length, length))
            for length in lengths
        }
        held = held_by_length(models.build(name), models, source, lengths)
        found[name] = {"training": saved, "decoding": held}
    for part in ("training", "decoding"):
        rows = [[str(n), *(number(of[part][n] / 1e6) for of in found.values())] for n in lengths]
        show(f"Memory of {part}", ["tokens", *(f"{name}, MB" for name in found)], rows)
    return found


def saved_bytes(model, task, batch: dict) -> int:
    """Bytes that a forward pass leaves allocated for the backward pass."""
    model.train()
    if next(model.parameters()).is_cuda:
        before = torch.cuda.memory_allocated()
        loss = loss_of(model, task, batch)
        held = torch.cuda.memory_allocated() - before
    else:
        with torch.profiler.profile(profile_memory=True) as profile:
            loss = loss_of(model, task, batch)
        held = sum(event.self_cpu_memory_usage for event in profile.events())
    del loss  # the graph lives until here
    return held


def held_by_length(model, models: Models, batch: dict, lengths: list[int]) -> dict[int, int]:
    """Bytes of the decoder's state after each of *lengths* tokens: all that the last layer gets
    beside its input."""
    found: dict[int, int] = {}
    steps = 0

    def look(layer, args, kwargs, output):
        nonlocal steps
        steps += 1
        if steps in lengths:
            found[steps] = held_bytes([args[1:], kwargs])

    translate = in_fairseq(model, models, batch)
    model.decoder.layers[-1].register_forward_hook(look, with_kwargs=True)
    translate(max(lengths))
    return found


def held_bytes(value) -> int:
    """Bytes of all tensors in *value*, each storage once, modules apart."""
    storages: dict[int, int] = {}

    class Walk(pickle.Pickler):
        def persistent_id(self, part):
            if isinstance(part, torch.Tensor):
                storages[part.untyped_storage().data_ptr()] = part.untyped_storage().nbytes()
            return 0 if isinstance(part, (torch.Tensor, torch.nn.Module)) else None

    Walk(io.BytesIO()).dump(value)
    return sum(storages.values())
