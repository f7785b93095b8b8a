"""Text in, text out: what translating needs beside a model."""

from resmlp_mt_runtime.errors import UserError

__all__ = ["UserError"]
__version__ = "0.3.0"
