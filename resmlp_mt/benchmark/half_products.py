"""float16 on a CPU as a GPU computes it: products summed in float32, their results in 16 bits.

A CPU without instructions for float16 takes a hundred times as long for its own products. What is
stored between two operations, and so what overflows, is the same here as on a GPU.
"""

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

_PRODUCTS = {
    *("mm", "addmm", "bmm", "baddbmm", "_scaled_dot_product_flash_attention_for_cpu"),
    "_scaled_dot_product_flash_attention_for_cpu_backward",
}


class HalfProducts(TorchDispatchMode):
    """While it is entered, products of float16 matrices are those of a GPU."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.partition("::")[2]
        given = [x for x in args if isinstance(x, Tensor)]
        half = any(x.dtype == torch.float16 for x in given)
        if name not in _PRODUCTS or not half:
            return func(*args, **(kwargs or {}))
        out = func(*tree_map(_widened, args), **tree_map(_widened, kwargs or {}))
        if isinstance(out, Tensor):
            return out.half()
        # the second result of the attention is its normalizer, which is float32 on a GPU too
        forward = name.endswith("cpu")
        return tuple(
            x if not isinstance(x, Tensor) or (forward and n == 1) else x.half()
            for n, x in enumerate(out)
        )


def _widened(x):
    return x.float() if isinstance(x, Tensor) and x.dtype == torch.float16 else x
