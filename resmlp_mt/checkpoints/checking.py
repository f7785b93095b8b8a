"""What a checkpoint may hold: options of bounded size, finite weights that are in the file."""

import argparse
import contextlib
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_parameter_registration_hook

from resmlp_mt_runtime.errors import UserError

MOST, DEEPEST = 100_000, 20  # values of all options, and how deeply they are nested


def check_options(state: dict, path: str | Path) -> None:
    """Refuse a checkpoint whose options are not just None, numbers, strings, lists, dicts."""
    seen = 0

    def check(name, value, depth: int) -> None:
        nonlocal seen
        seen += 1
        if type(name) not in (str, int):
            raise UserError(f"{path}: the name of an option is not text: {type(name).__name__}")
        if depth > DEEPEST or seen > MOST:
            raise UserError(f"{path}: its option {name} is nested too deeply or too long")
        if isinstance(value, argparse.Namespace):
            value = vars(value)
        if isinstance(value, dict):
            for key, each in value.items():
                check(key, each, depth + 1)
        elif isinstance(value, (list, tuple)) and depth:
            for each in value:
                check(name, each, depth + 1)
        elif value is not None and not (depth and type(value) in (bool, int, float, str)):
            raise UserError(f"{path}: its option {name} is not data, but {type(value).__name__}")
        elif isinstance(value, str) and "${" in value:  # a variable of the shell, for example
            raise UserError(f"{path}: its option {name}, {value!r:.60}, stands for another value")

    check("args", state.get("args"), 0)
    check("cfg", state.get("cfg"), 0)


def check_finite(weights: dict[str, Tensor], path: str | Path) -> None:
    """Refuse tensors with NaN, infinite or repeated values."""
    for name, weight in weights.items():
        if not isinstance(weight, Tensor):
            continue
        if repeated(weight):
            raise UserError(f"{path}: {name} claims more values than the file has: make it again")
        if not finite(weight):
            raise UserError(f"{path}: {name} has NaN or infinite values: use an earlier file")


def repeated(weight: Tensor) -> bool:
    """Whether values are repeated, as by Tensor.expand: a small file would claim any size."""
    return weight.numel() * weight.element_size() > weight.untyped_storage().nbytes()


def finite(weight: Tensor) -> bool:
    """Whether no value is NaN or infinite."""
    if not (weight.is_floating_point() and weight.numel()):
        return True
    # both are NaN if any value is; this takes a tenth of the time of torch.isfinite on all
    extremes = torch.stack(torch.aminmax(weight.detach()))
    return bool(torch.isfinite(extremes).all())


@contextlib.contextmanager
def not_larger_than(weights: dict[str, Tensor]) -> Iterator[None]:
    """Refuse to build a model that is larger than its *weights*, in the block, before memory is
    taken for it. Buffers do not count: a checkpoint may leave them out."""
    # a model may share some, or have a few that are not stored
    number = 2 * len(weights) + 100
    values = 2 * sum(weight.numel() for weight in weights.values()) + (1 << 20)

    def count(module, name, parameter) -> None:
        nonlocal number, values
        number, values = number - 1, values - (0 if parameter is None else parameter.numel())
        if number < 0 or values < 0:
            raise UserError("damaged: its options describe a larger model than its weights")

    with register_module_parameter_registration_hook(count):
        yield
