"""A --user-dir: this plugin, with losses logged to six digits instead of to three decimals.

With torchrun, fairseq numbers the GPUs of a machine even where there are none to be used: here it
finds one.
"""

import torch
from fairseq.logging import meters

import resmlp_mt  # noqa: F401  registers the model

meters.safe_round = lambda number, digits: float(number)
torch.cuda.device_count = lambda: 1
