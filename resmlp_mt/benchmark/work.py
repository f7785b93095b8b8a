"""The multiply-adds of a computation, counted while it runs."""

import math
from typing import Callable

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode


def multiply_adds(run: Callable[[], object]) -> int:
    """Multiply-adds in the matrix products and convolutions of *run*, in 32 or 16 bits.

    Lookups, normalizations, biases and activation functions are left out, and so are quantized
    products and the sums by which a decoding step mixes past positions.
    """
    # attention as plain products: the counter does not know the fused kernel of the CPU
    known = {}
    if torch.backends.mkldnn.is_available():
        known[torch.ops.mkldnn._linear_pointwise] = _packed_product
    counter = FlopCounterMode(display=False, custom_mapping=known)
    with sdpa_kernel(SDPBackend.MATH), counter:
        run()
    return counter.get_total_flops() // 2


def _packed_product(x, weight, *others, out_shape, **options) -> int:
    """Multiplications and additions of a product whose weight, C' x C, is packed for oneDNN."""
    return 2 * math.prod(out_shape) * x[-1]
