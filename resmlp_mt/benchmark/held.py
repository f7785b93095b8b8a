"""Bytes that a computation keeps: for the backward pass, and in the memory of decoding."""

from typing import Dict, List

import torch

from resmlp_mt.benchmark.train import loss_of


def saved_bytes(model, task, batch: dict) -> int:
    """Bytes that a forward pass keeps for the backward pass, weights apart.

    Every distinct storage counts once and whole: a view keeps all of what it views.
    """
    weights = {value.untyped_storage().data_ptr() for value in model.state_dict().values()}
    kept: Dict[int, int] = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    model.train()
    # the graph lives until `loss` goes: no storage is freed, and its address given to another
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = loss_of(model, task, batch)
    del loss
    return sum(kept.values())


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


def _children(value) -> list:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, (list, tuple, set)):
        return list(value)
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    slots = [getattr(value, name) for name in names if hasattr(value, name)]
    return slots + list(getattr(value, "__dict__", {}).values())


def held_bytes(value) -> int:
    """Bytes of all tensors that can be reached from *value*, each storage once."""
    storages: Dict[int, int] = {}
    seen, waiting = set(), [value]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, (torch.nn.Module, type)):
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            storage = value.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
        else:
            waiting.extend(_children(value))
    return sum(storages.values())


def cache_by_length(column, batch: dict, lengths: List[int]) -> Dict[int, int]:
    """Bytes that word-by-word decoding holds after each of *lengths* words, in one run.

    It is what the last layer is handed beside the newest word's state: the memory of all layers
    and, where a layer reads that at every step, the encoder's output.
    """
    found: Dict[int, int] = {}
    steps = 0

    def look(layer, args, kwargs, output):
        nonlocal steps
        steps += 1
        if steps in lengths:
            found[steps] = held_bytes([args[1:], kwargs])

    handle = column.model.decoder.layers[-1].register_forward_hook(look, with_kwargs=True)
    try:
        column.prepare(batch, max(lengths))()
    finally:
        handle.remove()
    return found
