"""The arithmetic of generation: the checkpoint's own, bfloat16, or int8 on a CPU."""

import warnings

import torch
from torch import nn

from resmlp_mt.errors import UserError

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


def _quantize_(model: nn.Module) -> None:
    quantization = torch.ao.quantization
    engine = torch.backends.quantized.engine
    fast = "onednn" in torch.backends.quantized.supported_engines
    # without these instructions oneDNN's sums of products may overflow; PyTorch's default knows
    fast = fast and getattr(torch.cpu, "_is_vnni_supported", lambda: False)()
    with warnings.catch_warnings():
        # PyTorch moves this to a package of its own, torchao
        warnings.simplefilter("ignore")
        try:
            torch.backends.quantized.engine = "onednn" if fast else engine
            quantization.quantize_dynamic(
                model,
                {nn.Linear: quantization.per_channel_dynamic_qconfig},
                inplace=True,
            )
        finally:
            torch.backends.quantized.engine = engine
