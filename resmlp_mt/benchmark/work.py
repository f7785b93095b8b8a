"""The multiply-adds of a computation, counted while it runs."""

from typing import Callable

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode


def multiply_adds(run: Callable[[], object]) -> int:
    """Multiply-adds in the matrix products and convolutions of *run*, in 32 or 16 bits.

    Lookups, normalizations, biases and activation functions are left out, and so are quantized
    products and the sums by which a decoding step mixes past positions.
    """
    # attention as plain products: the counter does not know the fused kernel of the CPU
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops() // 2
