"""Linear layers on a CPU, with the weight in the layout that oneDNN multiplies by.

PyTorch multiplies float32 matrices by MKL. For the few rows of a single sentence MKL reads the
weight at a quarter of the speed of the memory, and on CPUs of another maker than Intel it is half
as fast as oneDNN for any number of rows. bfloat16 matrices are multiplied by oneDNN, but the weight
is brought into its layout at each product.
"""

import platform
from functools import cache
from pathlib import Path
from typing import Optional

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from resmlp_mt.decoding.precision import FEW, replace_linear_layers_

# Rows of a product. PyTorch keeps what oneDNN has made for each number of rows, half a megabyte and
# more, for a thousand of them. Other numbers are cut and filled up to one of these.
ROWS = (1, 4, 8, 16, 32, 64, 128, 192, 256)


@cache
def has_products_of(dtype: torch.dtype) -> bool:
    """Whether oneDNN is there, on an x86 CPU, and multiplies matrices of that type."""
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    if not x86 or not torch.backends.mkldnn.is_available():
        return False
    if dtype == torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return dtype == torch.float32


def can_pack(model: nn.Module) -> bool:
    """Whether there are packed products for the weights of *model*, and they are not switched
    off."""
    weight = next(model.parameters())
    here = weight.device.type == "cpu" and torch.backends.mkldnn.enabled
    return here and has_products_of(weight.dtype)


def pack_(model: nn.Module) -> None:
    """Put a :class:`PackedLinear` in the place of every linear layer, for inference."""
    replace_linear_layers_(model, PackedLinear)


class PackedLinear(nn.Linear):
    """A linear layer that keeps its weight a second time, packed, from its first use on.

    The packed one is read on a CPU where no gradient is asked for. A layer that is moved, converted
    or copied packs again. One whose weight is changed in place does not.

    Args:
        linear: the layer; its parameters are shared, not copied.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__(linear.in_features, linear.out_features, bias=False, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        self._packed: Optional[Tensor] = None

    def forward(self, x: Tensor) -> Tensor:
        """Shape ``(..., C)`` to ``(..., C')``."""
        if not self.reads_packed(x):
            return super().forward(x)
        if self._packed is None:
            weight = self.weight.detach().contiguous()
            self._packed = torch.ops.mkldnn._reorder_linear_weight(weight, FEW)
        parts = [self._product(some) for some in x.reshape(-1, self.in_features).split(ROWS[-1])]
        y = parts[0] if len(parts) == 1 else torch.cat(parts)
        return y.view(*x.shape[:-1], self.out_features)

    def _product(self, x: Tensor) -> Tensor:
        """R x C to R x C', R at most the last of :data:`ROWS`."""
        rows = next(rows for rows in ROWS if rows >= len(x))
        filled = F.pad(x, (0, 0, 0, rows - len(x))) if rows > len(x) else x
        y = torch.ops.mkldnn._linear_pointwise(filled, self._packed, self.bias, "none", [], "")
        return y[: len(x)]

    def reads_packed(self, x: Tensor) -> bool:
        """Whether the product with *x* is one of the packed weight."""
        if torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or x.device.type != "cpu":
            return False
        if x.dtype != self.weight.dtype or not has_products_of(x.dtype):
            return False
        few = x.numel() <= FEW * self.in_features
        return few or x.dtype == torch.bfloat16 or not made_by_intel()

    def _apply(self, *args, **kwargs):
        self._packed = None
        return super()._apply(*args, **kwargs)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_packed": None}  # PyTorch cannot copy or write it


@cache
def made_by_intel() -> bool:
    """Whether Intel made the CPU, for which MKL is made."""
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
