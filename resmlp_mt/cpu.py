"""What PyTorch says about this CPU: ``cpu_name`` and the instructions that it has."""

import torch

# empty in PyTorch 2.10, which setup.py allows and which does not say
CPU: dict = getattr(torch.cpu, "get_capabilities", dict)()
