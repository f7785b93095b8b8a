"""resmlp_mt: the sequence-to-sequence ResMLP as a fairseq plugin.

fairseq registers the model and its architectures when it loads this folder as ``--user-dir``.
Without fairseq, importing this package loads nothing else. ``ResMLPModel`` loads fairseq.
"""

import importlib.util
import os
import sys

if importlib.util.find_spec("resmlp_mt_runtime") is None:  # a clone that was never installed
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(__file__)), "runtime"))

from resmlp_mt.plugin import register  # loads nothing

__all__ = ["ResMLPModel", "register_mixing"]
__version__ = "0.3.0"

_HOMES = {"ResMLPModel": "resmlp_mt.model.model", "register_mixing": "resmlp_mt.model.mixing"}


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    register()
    return getattr(importlib.import_module(_HOMES[name]), name)


class _UserDir(list):
    """``__path__``. If this package is imported already, fairseq only asks whether its
    ``--user-dir`` is in here. Perhaps fairseq came later, and the model is not registered yet."""

    def __contains__(self, folder) -> bool:
        register()
        # fairseq knows one folder by several names: SITE/fairseq/../resmlp_mt is SITE/resmlp_mt
        return any(os.path.realpath(folder) == os.path.realpath(ours) for ours in self)


__path__ = _UserDir(__path__)
if "fairseq" in sys.modules:
    register()
