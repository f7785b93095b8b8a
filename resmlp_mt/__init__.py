"""resmlp_mt: the sequence-to-sequence ResMLP as a fairseq plugin.

fairseq registers the model and its architectures when it loads this folder as ``--user-dir``.
Without fairseq, importing this package loads nothing else. ``ResMLPModel`` loads fairseq.
"""

import importlib
import os
import sys

__all__ = ["ResMLPModel", "register_mixing"]
__version__ = "0.2.0"


def __getattr__(name: str):
    if name == "ResMLPModel":
        importlib.import_module("resmlp_mt.fairseq_fixes").apply()
        return importlib.import_module("resmlp_mt.model.model").ResMLPModel
    if name == "register_mixing":
        return importlib.import_module("resmlp_mt.model.mixing_kinds").register_mixing
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Path(list):
    """``__path__``, in which ``fairseq.utils.import_user_module`` looks for its ``--user-dir`` if
    this package was imported before. If that was before fairseq, no model is registered yet."""

    def __contains__(self, folder) -> bool:
        importlib.import_module("resmlp_mt.fairseq_fixes").apply()
        # fairseq knows one folder by several names: SITE/fairseq/../resmlp_mt is SITE/resmlp_mt
        return any(os.path.realpath(folder) == os.path.realpath(ours) for ours in self)


__path__ = _Path(__path__)
_fixes = importlib.import_module("resmlp_mt.fairseq_fixes")  # loads nothing heavy
if "fairseq" in sys.modules:
    _fixes.apply()
