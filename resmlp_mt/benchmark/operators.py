"""A profile's operators in a few parts: which of them are products, copies, search ..."""

import os
import time
from collections import Counter
from contextlib import contextmanager
from typing import Callable, Dict, Optional

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from resmlp_mt.benchmark.timing import synchronizer

OUTPUT, LINEAR, ATTENTION = "output layer", "other linear layers", "attention products"
MIXING, SOFTMAX, SEARCH = "token mixing (decoder)", "softmax", "search"
COPIES, OTHERS, PYTHON = "copies and gathers", "other operators", "Python and dispatch"
PRODUCTS = (OUTPUT, LINEAR, ATTENTION, MIXING)
PARTS = (*PRODUCTS, SOFTMAX, SEARCH, COPIES, OTHERS)

_LIBRARIES = ("mkldnn::", "mkl::", "onednn::", "quantized::")
_NAMES = {
    LINEAR: "linear mm addmm _addmm_activation mv addmv _int_mm _weight_int8pack_mm",
    ATTENTION: "bmm baddbmm einsum scaled_dot_product_attention",
    MIXING: "embedding_bag",
    SOFTMAX: "softmax _softmax log_softmax _log_softmax logsumexp",
    SEARCH: "topk sort gather scatter ne eq ge gt lt where masked_fill masked_fill_ masked_select "
    "index_put_ nonzero max amax all any unique _unique2 item is_nonzero bitwise_and bitwise_or "
    "bitwise_not",
    COPIES: "to _to_copy copy_ clone contiguous cat index index_select index_copy_ repeat "
    "repeat_interleave",
}
_PART = {f"aten::{name}": part for part, names in _NAMES.items() for name in names.split()}
_RANGE = f"resmlp_mt.benchmark: {OUTPUT}"


def part_of(name: str, shapes: list, vocabulary: int) -> Optional[str]:
    """The part that an operator or a range stands for, None if that is left to what is in it.

    Args:
        name: such as ``aten::addmm``.
        shapes: of its arguments; a product with a dimension of *vocabulary* is the output layer.
    """
    if name == _RANGE:
        return OUTPUT
    part = LINEAR if name.startswith(_LIBRARIES) else _PART.get(name)
    if part == LINEAR and any(vocabulary in (shape or []) for shape in shapes or []):
        return OUTPUT
    return part


def is_operator(event) -> bool:
    """Whether an event is an operator: not a range that Python code has named, nor a kernel."""
    on_cpu = event.device_type == torch.autograd.DeviceType.CPU
    return on_cpu and "::" in event.name and not event.is_user_annotation


def sum_parts(
    events: list, vocabulary: int, time_of: Callable, recording: float = 0.0
) -> Dict[str, float]:
    """Time by part.

    An operator's own time goes to the outermost operator around it that stands for a part: the sum
    and the exponential within ``logsumexp`` are softmax.

    Args:
        events: of a profile.
        vocabulary: V.
        time_of: an event's own time.
        recording: what recording one event takes, in the same unit. It falls into the own time of
            the event around it, and is taken off there.
    """
    children = Counter(id(event.cpu_parent) for event in events if event.cpu_parent is not None)
    sums = dict.fromkeys(PARTS, 0.0)
    for event in filter(is_operator, events):
        part, around = None, event
        while around is not None:
            part = part_of(around.name, around.input_shapes, vocabulary) or part
            around = around.cpu_parent
        own = time_of(event) - recording * children[id(event)]
        sums[part or OTHERS] += max(0.0, own)
    return sums


@contextmanager
def output_layer_named(model):
    """Within, a profile has a range around each call of the output layer.

    A quantized layer's weights have no shape in a profile; a call of the layer's product alone
    makes no range. So this beside the shapes.
    """
    ranges = []

    def enter(*_):
        ranges.append(record_function(_RANGE))
        ranges[-1].__enter__()

    def leave(*_):
        ranges.pop().__exit__(None, None, None)

    layer = model.decoder.output_projection
    hooks = [layer.register_forward_pre_hook(enter), layer.register_forward_hook(leave)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def profile_parts(
    run: Callable, model, vocabulary: int, device: str, wall: float, repeats: int
) -> Dict[str, float]:
    """Run under PyTorch's profiler; of *repeats* runs the one that took the median time counts.

    Args:
        run: what to run, warmed up.
        model: the model in it.
        vocabulary: V.
        device: ``cpu``: the operators' time on the calling thread; ``cuda``: their kernels' time.
        wall: seconds that the run takes without the profiler. On a CPU what it takes longer, by
            the number of events, is the time to record one.
        repeats: how many runs.

    Returns:
        seconds by part.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else some builds announce every profile
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device == "cuda")
    found = []
    for _ in range(repeats):
        with (
            output_layer_named(model),
            profile(activities=activities, record_shapes=True) as profiled,
        ):
            start = time.perf_counter()
            run()
            synchronizer(device)()
            taken = time.perf_counter() - start
        events = list(profiled.events())
        if device == "cuda":
            sums = sum_parts(events, vocabulary, lambda event: event.self_device_time_total)
        else:
            recording = 1e6 * max(0.0, taken - wall) / max(1, len(events))
            sums = sum_parts(events, vocabulary, lambda event: event.self_cpu_time_total, recording)
        found.append((taken, {part: microseconds / 1e6 for part, microseconds in sums.items()}))
    found.sort(key=lambda run: run[0])
    return found[(repeats - 1) // 2][1]
