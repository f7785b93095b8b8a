"""Translate with a model that resmlp_mt exported: numpy and sentencepiece alone.

from resmlp_mt_runtime import Model
Model("exported").translate(["A sentence."])
"""

from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.model import Model

__all__ = ["Model", "UserError"]
__version__ = "0.3.0"
