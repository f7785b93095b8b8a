"""Decoding steps of all systems, in turn."""

import time
from collections.abc import Callable
from statistics import median

import torch
from fairseq.sequence_generator import SequenceGenerator
from models import Models
from results import spread
from systems import exported, in_ctranslate2, in_fairseq

from resmlp_mt_runtime.errors import UserError


def decode(args) -> dict:
    """All systems translate the same sentences."""
    models = Models(args)
    batch = models.batch()
    systems = {name: in_fairseq(models.build(name), models, batch) for name in models.options}
    for name in models.ours:
        if args.parts:
            part = in_fairseq(models.build(name), models, batch, search=SequenceGenerator)
            systems[f"{name}, fairseq's search"] = part
        if args.exported:
            systems[f"{name}, native int8"] = exported(name, models, batch)
    if args.ctranslate2:
        systems["CTranslate2 int8"] = in_ctranslate2(models, batch)
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


def timed(runs: dict[str, Callable], repeats: int, steps: int) -> dict[str, dict]:
    """By system: milliseconds per step, speed-up over the Transformer. Each has run once before.

    The speed-up is the ratio of times taken right after each other, so that a slow phase of the
    machine slows both.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    wait = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    for _ in range(repeats):
        for name, run in runs.items():
            wait()
            start = time.perf_counter()
            run()
            wait()
            seconds[name].append(time.perf_counter() - start)
    found, width = {}, max(map(len, runs))
    for name, ours in seconds.items():
        milliseconds = middle([1000 * taken / steps for taken in ours])
        speed = middle([theirs / taken for theirs, taken in zip(seconds["transformer"], ours)])
        found[name] = {"ms_per_step": milliseconds, "speed": speed}
        print(f"{name:{width}}  {spread(milliseconds)} ms, speed-up {spread(speed)}")
    return found


def middle(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "low": min(values), "high": max(values)}
