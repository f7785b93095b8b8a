"""Decoding steps, training steps, and the memory of both."""

import io
import pickle
from functools import partial

import torch
from measuring import show, timed
from models import Pair, loss_of
from results import number
from systems import exported, in_ctranslate2, in_fairseq

from resmlp_mt.errors import UserError


def decode(args) -> list[dict]:
    """Translate the same sentences into each target length."""
    pair = Pair(args)
    batch = pair.batch(args.sentences, args.source_length)
    systems = {name: in_fairseq(pair.build(name), pair, batch) for name in pair.options}
    systems |= {f"exported {p}": exported(p, pair, batch) for p in args.exported}
    if args.native:
        systems |= {f"native {p}": exported(p, pair, batch, native=True) for p in args.exported}
    systems |= {f"CTranslate2 {p}": in_ctranslate2(p, pair, batch) for p in args.ctranslate2}
    lines = []
    for words in args.target_length:
        for name, translate in systems.items():
            if translate(words) != {words}:
                raise UserError(f"{name} does not write {words} words")
        runs = {name: partial(translate, words) for name, translate in systems.items()}
        title = f"Decoding {args.sentences} x {args.beam} hypotheses, {words} words"
        columns = timed(title, runs, args, args.sentences * (words + 1), words + 1)
        setting = {"sentences": args.sentences, "beam": args.beam, "target_words": words}
        lines.append({**setting, "columns": columns})
    return lines


def train(args) -> list[dict]:
    """A step is the forward pass with label-smoothed loss, the backward pass and Adagrad."""
    pair = Pair(args)
    models = {name: pair.build(name).train() for name in pair.options}
    optimizers = {
        name: torch.optim.Adagrad(model.parameters(), lr=1e-4) for name, model in models.items()
    }

    def step(name: str, batch: dict) -> None:
        loss_of(models[name], pair.task, batch).backward()
        optimizers[name].step()
        optimizers[name].zero_grad()

    lines = []
    for words in args.target_length:
        batch = pair.training_batch(args.source_length, words)
        runs = {name: partial(step, name, batch) for name in models}
        title = f"Training, {batch['ntokens']:,} target tokens a step"
        columns = timed(title, runs, args, batch["ntokens"], 1)
        lines.append({"tokens": batch["ntokens"], "target_words": words, "columns": columns})
    return lines


def memory(args) -> dict[str, dict]:
    """Bytes by model and length: activations that training keeps, and what decoding remembers."""
    lengths, pair = sorted(args.target_length), Pair(args)
    source = pair.batch(args.sentences, args.source_length)
    found: dict[str, dict] = {}
    for name in pair.options:
        model = pair.build(name)
        saved = {
            length: saved_bytes(model, pair.task, pair.training_batch(length, length))
            for length in lengths
        }
        held = held_by_length(pair.build(name), pair, source, lengths)
        found[name] = {"training": saved, "decoding": held}
    for part in ("training", "decoding"):
        rows = [[str(n), *(number(of[part][n] / 1e6) for of in found.values())] for n in lengths]
        show(f"Memory of {part}", ["words", *(f"{name}, MB" for name in found)], rows)
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


def held_by_length(model, pair: Pair, batch: dict, lengths: list[int]) -> dict[int, int]:
    """Bytes that decoding remembers after each of *lengths* words: what the last layer gets beside
    the newest state."""
    found: dict[int, int] = {}
    steps = 0

    def look(layer, args, kwargs, output):
        nonlocal steps
        steps += 1
        if steps in lengths:
            found[steps] = held_bytes([args[1:], kwargs])

    translate = in_fairseq(model, pair, batch)
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
