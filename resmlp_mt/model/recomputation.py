"""What training keeps for its backward pass, kept small."""

from typing import Callable, List

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks


def compose(linear: Callable, function: Callable, x: Tensor) -> Tensor:
    """``linear(function(x))``, which keeps x for the backward pass and not ``function(x)``.

    A linear layer keeps its input for the gradient of its weight. Where that input is a cheap
    function of something that is kept anyway (an activation of the layer before, an affine map of
    the states), it is computed again in place of being kept.

    Args:
        linear: a layer, or a function of one tensor with layers in it.
        function: gives the same result whenever it is called.
        x: of any shape.
    """
    if (
        not torch.is_grad_enabled()
        # the compiler decides by itself what is kept
        or torch.compiler.is_compiling()
        # the backward pass has no autocast: the function would give another type there
        or torch.is_autocast_enabled(x.device.type)
    ):
        return linear(function(x))
    kept: List[list] = []

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
