"""Errors that a user can correct: one line that names what is wrong, the numbers and what to do."""

import re
import sys

try:
    from resmlp_mt_runtime.errors import UserError
except ImportError:  # fairseq-train --user-dir in a clone that was never installed

    class UserError(ValueError):  # type: ignore[no-redef]
        """Wrong input or options. Its message is one line, shown without a traceback."""


class OptionError(UserError):
    """An option value that the data rule out, such as a vocabulary size. Partial results are
    removed."""

    most: int | None = None  # the highest value that suits the text, if known


def printable(text: str) -> str:
    """One line that shows what *text* is: a line break or tab becomes a space; control characters
    and others that a terminal would act on or hide become escapes such as ``\\x1b``."""
    line = re.sub(r"\s*[^\S ]\s*", " ", text).rstrip()
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)


def say(text: object) -> None:
    """Print a message, one line, to standard error."""
    print(printable(str(text)), file=sys.stderr, flush=True)
