"""What PyTorch says about this CPU: ``cpu_name`` and the instructions that it has."""

import torch

# empty with PyTorch 2.10, the oldest that setup.py allows, which does not say
CPU: dict = getattr(torch.cpu, "get_capabilities", dict)()
