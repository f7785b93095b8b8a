"""Translate with a model that resmlp_mt exported; needs only numpy and sentencepiece.

from resmlp_mt_runtime import Model
Model("exported").translate(["A sentence."])
"""

from typing import TYPE_CHECKING

from resmlp_mt_runtime.errors import UserError

if TYPE_CHECKING:
    from resmlp_mt_runtime.model import Model

__all__ = ["Model", "UserError"]
__version__ = "0.3.0"


def __getattr__(name: str) -> object:
    """Model needs numpy and sentencepiece; UserError does not."""
    if name == "Model":
        from resmlp_mt_runtime.model import Model

        return Model
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
