"""What PyTorch says about this CPU, and whether it is the one that computes."""

import torch
from torch import Tensor

# cpu_name and the instructions that it has; empty with PyTorch 2.10, which setup.py allows
CPU: dict = getattr(torch.cpu, "get_capabilities", dict)()


def is_eager_on_cpu(x: Tensor) -> bool:
    """Whether *x* is on a CPU and no compiler traces it."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()
