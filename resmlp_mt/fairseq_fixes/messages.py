"""What programs print of an error, ours and fairseq's: one line, or None for a traceback."""

import contextlib
from collections.abc import Iterator

from resmlp_mt_runtime import errors
from resmlp_mt_runtime.errors import UserError, printable


def in_one_line(error: BaseException) -> str | None:
    """The line for an error that a user can correct or that names a checkpoint, or None."""
    if (line := errors.in_one_line(error)) is not None:
        return line
    message, where = printable(str(error))[:200], "RESMLP_MT_TRACEBACK=1 shows where"
    if notes := getattr(error, "__notes__", ()):
        named = ": ".join(filter(None, (type(error).__name__, message)))
        return printable(f"{notes[0]} ({named}; {where})")
    # with these fairseq refuses options, and with a bare Exception a data set
    kinds = (AssertionError, ImportError, NotImplementedError, ValueError)
    refused = isinstance(error, kinds) or type(error) is Exception
    return f"{message} ({where})" if message and refused else None


@contextlib.contextmanager
def naming(path, what: str) -> Iterator[None]:
    """Errors about a checkpoint name it. Those that no user can correct keep their type and
    message and get a note, *path* *what*, which fairseq's programs and ours print in one line."""
    try:
        yield
    except UserError as error:
        if str(path) in str(error):
            raise
        raise UserError(f"{path}: {error}") from error
    except OSError as error:
        if not error.strerror or error.filename in (None, path, str(path)):
            raise
        wrong = f"{path} needs {error.filename} ({error.strerror})"
        raise UserError(f"{wrong}: give the data that it was trained on") from error
    except Exception as error:
        # fairseq's trainer raises an exception of its own over any other
        if "please ensure that the architectures match" in str(error) and error.__context__:
            error = error.__context__
        if "Error(s) in loading state_dict" in str(error):
            first = str(error).split("\n")[1].strip()  # the line after the heading
            first = first.split(", ")[0] if "key(s)" in first else first
            wrong = f"{path} does not fit the model: it was trained with another architecture"
            raise UserError(f"{wrong}, other options or another dictionary: {first}") from error
        error.add_note(f"{path} {what}")
        raise error
