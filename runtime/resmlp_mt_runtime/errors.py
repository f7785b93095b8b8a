"""The error for mistakes that a user can correct, and how messages are printed."""

import re
import sys

# which Persian, Hindi and emoji are written with
JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"


class UserError(ValueError):
    """Wrong input or options. Its message is one line, fit to be shown without a traceback."""


def printable(text: str) -> str:
    """*text* as one line: line breaks and tabs become spaces; what a terminal would act on or hide,
    such as a control character, but not JOINERS, becomes an escape like ``\\x1b``."""
    line = re.sub(r"\s+", lambda run: " " if run[0].strip(" ") else run[0], text).rstrip()
    return "".join(c if c.isprintable() or c in JOINERS else repr(c)[1:-1] for c in line)


def say(text: object) -> None:
    """Print a message, one line, to standard error."""
    print(printable(str(text)), file=sys.stderr, flush=True)


def in_one_line(error: BaseException) -> str | None:
    """The line for an error that a user can correct; None for any other."""
    if isinstance(error, UserError):
        return printable(str(error))
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return printable(f"{where}{error.strerror or error}")
    return None
