"""In what two checkpoints of one training differ."""

from pathlib import Path
from typing import Iterator, List

import torch

from resmlp_mt.checkpoints import read_checkpoint

LAST = "checkpoint_last.pt"


def unlike(one: Path, other: Path) -> List[str]:
    """The values that differ, bit for bit: weights, optimizer, place in the data. What depends on
    the clock, the name of the folder or the number of starts is left out."""
    some, others = (dict(_values(_kept(read_checkpoint(path)))) for path in (one, other))
    names = sorted(some.keys() | others.keys())
    return [name for name in names if not _equal(some.get(name), others.get(name))]


def _kept(state: dict) -> dict:
    kept = {name: state[name] for name in ("model", "last_optimizer_state")}
    for name in ("train_iterator", "val_loss", "best"):
        kept[name] = state["extra_state"][name]
    return {**kept, "history": state["optimizer_history"][-1]}  # one entry for each start


def _values(thing, name: str = "") -> Iterator[tuple]:
    """All that stands in nested dictionaries and lists, each by its name."""
    if isinstance(thing, (dict, list, tuple)):
        parts = thing.items() if isinstance(thing, dict) else enumerate(thing)
        for key, part in parts:
            yield from _values(part, f"{name}.{key}")
    else:
        yield name, thing


def _equal(one, other) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return type(one) is type(other) and one == other
