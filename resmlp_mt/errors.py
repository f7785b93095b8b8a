"""Errors that a user can correct: one line that names what is wrong, the numbers and what to do."""

from resmlp_mt_runtime.errors import UserError, printable, say

__all__ = ["OptionError", "UserError", "printable", "say"]


class OptionError(UserError):
    """An option value that the data rule out, such as a vocabulary size. Partial results are
    removed."""

    most: int | None = None  # the highest value that suits the text, if known
