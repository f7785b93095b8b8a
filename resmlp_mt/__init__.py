"""resmlp_mt: the sequence-to-sequence ResMLP as a fairseq plugin.

fairseq registers the model and its architectures when it loads this folder as ``--user-dir``.
Without fairseq, importing this package loads nothing else; ``ResMLPModel`` loads fairseq.
"""

import importlib
import sys

__all__ = ["ResMLPModel"]
__version__ = "0.2.0"


def __getattr__(name: str):
    if name == "ResMLPModel":
        importlib.import_module("resmlp_mt.compat")
        return importlib.import_module("resmlp_mt.models.model").ResMLPModel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if "fairseq" in sys.modules:
    importlib.import_module("resmlp_mt.compat")
