"""Errors that a user can correct: one line that names what is wrong, the numbers and what to do."""


class UserError(ValueError):
    """Wrong input or options. Its message is one line, fit to be shown without a traceback."""


class OptionError(UserError):
    """The value of an option does not suit the text. The user will give another one, so nothing
    that was made with this one is stored."""

    most: int | None = None  # the highest value that suits the text, if known


def in_one_line(error: BaseException) -> str | None:
    """What programs print of an error that a user can correct, or of an exception with a note about
    a checkpoint; None for any other."""
    # fairseq's is of a sentence with more tokens than positions
    if isinstance(error, UserError) or "Size of sample #" in str(error):
        return str(error)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    notes = getattr(error, "__notes__", ())
    # with these fairseq refuses options
    refused = isinstance(error, (AssertionError, NotImplementedError)) and str(error)
    if not notes and not refused:
        return None
    message = " ".join(str(error).split())[:200]
    where = "RESMLP_MT_TRACEBACK=1 shows where"
    if not notes:
        return f"{message} ({where})"
    return f"{notes[0]} ({type(error).__name__}: {message}; {where})"
