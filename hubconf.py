"""For torch.hub: ``torch.hub.load("resmlp-mt/resmlp_mt", "resmlp_mt.en-de")``."""

import functools
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent / "runtime"))
from resmlp_mt import ResMLPModel
from resmlp_mt.model.hub import FOLDERS

dependencies = ["fairseq", "omegaconf", "regex", "sacremoses", "sentencepiece", "torch"]

for name in FOLDERS:
    globals()[name] = functools.partial(ResMLPModel.from_pretrained, name)
