"""Linear layers in float32 on a CPU, with the weight in the layout that oneDNN multiplies by.

PyTorch multiplies float32 matrices by MKL. For the few rows of a single sentence MKL reads the
weight at a quarter of the speed of the memory, and on CPUs of another maker than Intel it is half
as fast as oneDNN for any number of rows.
"""

import platform
from functools import cache
from pathlib import Path
from typing import Optional

import torch
from torch import Tensor, nn

FEW = 16  # rows of a single sentence: as many as beams


def can_pack(model: nn.Module) -> bool:
    """Whether the weights are float32 on an x86 CPU, and oneDNN is there and not switched off."""
    weight, engine = next(model.parameters()), torch.backends.mkldnn
    here = weight.device.type == "cpu" and platform.machine().lower() in ("x86_64", "amd64")
    return here and weight.dtype == torch.float32 and engine.is_available() and engine.enabled


def pack_(model: nn.Module) -> None:
    """Put a :class:`PackedLinear` in the place of every linear layer, for inference."""
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Linear:
                setattr(parent, name, PackedLinear(layer))


class PackedLinear(nn.Linear):
    """A linear layer that keeps its weight a second time, packed, from its first use on.

    The packed one is read where no gradient is asked for and all is float32 on a CPU. A layer that
    is moved, converted or copied packs again; one whose weight is changed in place does not.

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
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")

    def reads_packed(self, x: Tensor) -> bool:
        """Whether the product with *x* is one of the packed weight."""
        here = x.device.type == "cpu" and x.dtype == self.weight.dtype == torch.float32
        if not here or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
            return False
        return x.numel() <= FEW * self.in_features or not made_by_intel()

    def _apply(self, *args, **kwargs):
        self._packed = None
        return super()._apply(*args, **kwargs)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_packed": None}  # PyTorch cannot copy or write it


@cache
def made_by_intel() -> bool:
    """Whether Intel made the CPU, where MKL is the faster one for many rows."""
    try:
        return "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
