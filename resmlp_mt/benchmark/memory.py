"""``benchmark memory``: the activations that training keeps, and what decoding remembers."""

import gc
from types import FunctionType, ModuleType
from typing import Dict, List

import torch
from tqdm import tqdm

from resmlp_mt.benchmark.decoding import FairseqSystem
from resmlp_mt.benchmark.models import Pair
from resmlp_mt.benchmark.report import Report, Table, counted
from resmlp_mt.benchmark.sentences import Sentences
from resmlp_mt.benchmark.timing import number
from resmlp_mt.benchmark.training import loss_of

# what every object reaches, and what holds weights
NO_MEMORY = (torch.nn.Module, type, FunctionType, ModuleType)


def saved_bytes(model, task, batch: dict) -> int:
    """Bytes that a forward pass leaves allocated, for the backward pass, with the loss.

    They are counted by allocation: hooks on saved tensors do not see what our own hooks keep.
    """
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


def peak_bytes(model, task, batch: dict) -> int:
    """The most that both passes have on the GPU at once, weights and their gradients apart."""
    model.train()
    loss_of(model, task, batch).backward()  # from here on there are gradients
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    loss_of(model, task, batch).backward()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    model.zero_grad()
    return peak


def held_bytes(value) -> int:
    """Bytes of all tensors that can be reached from *value*, each storage once."""
    storages: Dict[int, int] = {}
    seen, waiting = set(), [value]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, NO_MEMORY):
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
        else:
            waiting.extend(gc.get_referents(value))
    return sum(storages.values())


def held_by_length(system: FairseqSystem, batch: dict, lengths: List[int]) -> Dict[int, int]:
    """Bytes that word-by-word decoding remembers after each of *lengths* words, in one run.

    The last layer gets them beside the state of the newest word: the memory of all layers and,
    where a layer reads it at every step, the output of the encoder.
    """
    found: Dict[int, int] = {}
    steps = 0

    def look(layer, args, kwargs, output):
        nonlocal steps
        steps += 1
        if steps in lengths:
            found[steps] = held_bytes([args[1:], kwargs])

    handle = system.model.decoder.layers[-1].register_forward_hook(look, with_kwargs=True)
    try:
        system.prepare(batch, max(lengths))()
    finally:
        handle.remove()
    return found


def of_training(pair: Pair, models: list, sentences: Sentences, args, bar: tqdm) -> List[dict]:
    """A line for each length of both sides."""
    lines = []
    for length in args.target_length:
        batch = sentences.training_batch(args.tokens, length, length)
        columns = {}
        for name, model in zip(pair.names, models):
            columns[name] = {"saved": saved_bytes(model, pair.task, batch)}
            if args.device == "cuda":
                columns[name]["peak"] = peak_bytes(model, pair.task, batch)
            bar.update()
        sizes = {"sentences": batch["target"].size(0), "tokens": batch["ntokens"]}
        lines.append({"length": length, **sizes, "columns": columns})
    return lines


def of_decoding(pair: Pair, models: list, sentences: Sentences, args, bar: tqdm) -> List[dict]:
    """A line for each number of target words so far."""
    batch = sentences.source_batch(args.sentences, args.source_length)
    found = {}
    for place, (name, model) in enumerate(zip(pair.names, models)):
        system = FairseqSystem(name, model, pair, place)
        found[name] = held_by_length(system, batch, args.target_length)
        bar.update()
    hypotheses = args.sentences * args.beam
    return [
        {
            "length": length,
            "hypotheses": hypotheses,
            "columns": {name: {"held": held[length]} for name, held in found.items()},
        }
        for length in args.target_length
    ]


def table(title: str, lines: List[dict], kinds: Dict[str, str], notes: List[str]) -> Table:
    """A row a length: MB of both models and the ratio, for each kind of number."""
    ours, baseline = lines[0]["columns"]
    header = ["length"]
    for heading in kinds.values():
        header += [f"{ours}{heading}", f"{baseline}{heading}", "ours / theirs"]
    rows = []
    for line in lines:
        row = [str(line["length"])]
        for kind in kinds:
            some, other = line["columns"][ours][kind], line["columns"][baseline][kind]
            row += [number(some / 1e6), number(other / 1e6), number(some / other)]
        rows.append(row)
    return Table(title, header, rows, notes)


def main(args) -> Report:
    """Training with as many words on both sides, decoding with a fixed source length."""
    args.target_length = sorted(args.target_length)
    longest = max(args.target_length) + 1
    pair = Pair(args, max(longest, args.source_length + 1), longest)
    sentences, models = Sentences(pair.task, args), pair.models()
    with tqdm(total=2 * len(args.target_length) + 2, unit="run", disable=None) as bar:
        trained = of_training(pair, models, sentences, args, bar)
        decoded = of_decoding(pair, models, sentences, args, bar)
    kinds = {"saved": ""}
    notes = ["left allocated by a forward pass, for the backward pass, with the loss"]
    if args.device == "cuda":
        kinds["peak"] = " (peak)"
        notes.append("peak: the most on the GPU during both passes, weights and gradients apart")
    setting = (
        f"{counted(args.sentences, 'sentence')} of {args.source_length} source words, "
        f"beam {args.beam}"
    )
    of_step = f"activations, a step of {args.tokens} target tokens"
    tables = [
        table(f"Training: MB of {of_step}, by words on either side", trained, kinds, notes),
        table(
            f"Decoding: MB remembered, by target words so far ({setting})",
            decoded,
            {"held": ""},
            ["ours sets aside room for words to come"],
        ),
    ]
    result = {"models": pair.describe(), "training": trained, "decoding": decoded}
    return Report(result, tables)
