"""What PyTorch and fairseq have too, here with less time and memory."""

from collections.abc import Callable

import torch
from fairseq import utils
from fairseq.modules import FairseqDropout
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import functional as F


def activation_function(name: str) -> Callable[[Tensor], Tensor]:
    """fairseq's function of that name, but for its ``gelu``, which turns 16-bit states into
    float32 and back: two passes over memory."""
    return F.gelu if name == "gelu" else utils.get_activation_fn(name)


class Dropout(FairseqDropout):
    """fairseq's dropout; on a CPU it keeps one byte an element for the backward pass."""

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        on = self.training or self.apply_during_inference
        here = x.device.type == "cpu" and not torch.compiler.is_compiling()
        if on and here and 0 < self.p < 1:
            return (x * random_mask(x, self.p)).mul_(1 / (1 - self.p))
        return super().forward(x, inplace)


_LEVELS = 1 << 16  # of a random number of 16 bits


def random_mask(x: Tensor, p: float) -> Tensor:
    """A boolean mask like *x*, False with probability *p* (to the nearest 1 / 65536). 64 random
    bits make four elements: on a CPU six times as fast as ``Tensor.bernoulli_``."""
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64, device=x.device)
    numbers = bits.random_(-(1 << 63), None).view(torch.int16)[: x.numel()]
    dropped = min(round(p * _LEVELS), _LEVELS - 1)
    return (numbers >= dropped - _LEVELS // 2).view(x.shape)


def compose(linear: Callable, function: Callable, x: Tensor) -> Tensor:
    """``linear(function(x))``, keeping x for the backward pass, which computes ``function(x)``
    again: *function* must be cheap and deterministic."""
    if (
        not torch.is_grad_enabled()
        # the compiler decides what is kept
        or torch.compiler.is_compiling()
        # the backward pass has no autocast: the function would return another type
        or torch.is_autocast_enabled(x.device.type)
    ):
        return linear(function(x))
    kept: list[list] = []

    def pack(tensor: Tensor) -> list:
        kept.append([tensor])
        return kept[-1]

    def unpack(entry: list) -> Tensor:
        if isinstance(entry[0], Tensor):
            return entry[0]
        return function(x).as_strided(*entry[0])

    with saved_tensors_hooks(pack, unpack):
        h = function(x)
        y = linear(h)
    again = h.untyped_storage()._cdata
    for entry in kept:
        tensor = entry[0]
        if tensor.untyped_storage()._cdata == again:
            entry[0] = tensor.size(), tensor.stride(), tensor.storage_offset()
    kept.clear()
    return y
