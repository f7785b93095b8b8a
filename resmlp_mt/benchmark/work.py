"""The multiply-adds of a computation, counted while it runs."""

from typing import Callable
from unittest import mock

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from resmlp_mt.decoding.packing import PackedLinear


def multiply_adds(run: Callable[[], object]) -> int:
    """Multiply-adds in the matrix products and convolutions of *run*, in 32 or 16 bits.

    Lookups, normalizations, biases and activation functions are left out, and so are quantized
    products and the sums by which a decoding step mixes past positions.
    """
    # packed products fill rows up, and the counter does not know the fused attention of the CPU
    plain = mock.patch.object(PackedLinear, "reads_packed", lambda layer, x: False)
    with plain, sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops() // 2
