"""The arithmetic of generation: the checkpoint's own, bfloat16, or int8 on a CPU."""

import os
import warnings
from typing import Callable

import torch
from torch import Tensor, nn

from resmlp_mt.errors import UserError

# Rows of one sentence: as many as beams. For so few fbgemm is the faster engine of int8, and oneDNN
# that of float32 on a CPU of Intel.
FEW = 16
PRECISIONS = ("checkpoint", "bfloat16", "int8")


def set_precision_(model: nn.Module, precision: str) -> None:
    """Change a model for generation, in place.

    Args:
        model: a folded model.
        precision: ``checkpoint`` changes nothing; ``bfloat16`` converts everything; ``int8``
            quantizes the linear layers' weights, each output channel by its own scale, and their
            inputs batch by batch (PyTorch's dynamic quantization).

    Raises:
        UserError: for int8 on a GPU.
    """
    if precision == "bfloat16":
        model.bfloat16()
    elif precision == "int8":
        device = next(model.parameters()).device
        if device.type != "cpu":
            raise UserError(f"inference_precision int8 is for a CPU, not for {device}: add --cpu")
        _quantize_(model.float())


def replace_linear_layers_(model: nn.Module, make: Callable[[nn.Linear], nn.Module]) -> None:
    """Put what *make* gives of a layer in the place of every linear layer."""
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Linear:
                setattr(parent, name, make(layer))


def has_products_of_int8() -> bool:
    """Whether the CPU has instructions for them, and PyTorch the two engines that use these."""
    engines = torch.backends.quantized.supported_engines
    known = getattr(torch.cpu, "_is_vnni_supported", lambda: False)
    limited = "ONEDNN_MAX_CPU_ISA" in os.environ  # then oneDNN may not use them
    return "fbgemm" in engines and "onednn" in engines and known() and not limited


class Int8Linear(nn.Module):
    """A linear layer with its weight in 8 bits, for the instructions of a CPU for such products.

    The weight is there twice. fbgemm is faster for few rows and oneDNN for many, and each has a
    layout of its own.

    Args:
        linear: the layer in float32.
    """

    def __init__(self, linear: nn.Linear):
        super().__init__()
        self.few = _quantized(linear, "fbgemm")
        self.many = _quantized(linear, "onednn")

    def forward(self, x: Tensor) -> Tensor:
        """Shape ``(..., C)`` to ``(..., C')``."""
        layer = self.few if x.numel() <= FEW * x.size(-1) else self.many
        # 7 bits for x are for CPUs without these instructions, whose sums may overflow
        return torch.ops.quantized.linear_dynamic(
            x, layer._packed_params._packed_params, reduce_range=False
        )


def _quantized(linear: nn.Linear, engine: str) -> nn.Module:
    """PyTorch's own form of the layer: each output channel of the weight with its own scale."""
    linear.qconfig = torch.ao.quantization.per_channel_dynamic_qconfig
    before = torch.backends.quantized.engine
    try:
        torch.backends.quantized.engine = engine
        return torch.ao.nn.quantized.dynamic.Linear.from_float(linear)
    finally:
        torch.backends.quantized.engine = before
        del linear.qconfig


def _quantize_(model: nn.Module) -> None:
    with warnings.catch_warnings():
        # PyTorch moves this to a package of its own, torchao
        warnings.simplefilter("ignore")
        if not has_products_of_int8():
            # sums of products may overflow here; PyTorch's default knows
            torch.ao.quantization.quantize_dynamic(
                model,
                {nn.Linear: torch.ao.quantization.per_channel_dynamic_qconfig},
                inplace=True,
            )
            return
        replace_linear_layers_(model, Int8Linear)
