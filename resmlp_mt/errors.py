"""Errors that a user can mend: one line that names what is wrong, the numbers and what to do."""

import math


class UserError(ValueError):
    """Wrong input or options. Its message is one line, fit to be shown without a traceback."""


def check_positive(args, *names: str) -> None:
    """Refuse command-line options below 1. None is an option that was not given.

    Args:
        args: the parsed options.
        names: attributes of *args* to look at.

    Raises:
        UserError: naming the option.
    """
    for name in names:
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} {value}: must be at least 1")


def check_finite(args, *names: str) -> None:
    """Refuse command-line options that are infinite or no number.

    Raises:
        UserError: naming the option.
    """
    for name in names:
        if not math.isfinite(getattr(args, name)):
            raise UserError(f"--{name.replace('_', '-')} {getattr(args, name)}: must be a number")


def check_length(tokens: int, positions: int, side: str) -> None:
    """Refuse a sentence that reaches past the last row of the mixing matrix.

    Args:
        tokens: length of the longest sentence in the batch, end of sentence included, or the
            width that the batch is padded to.
        positions: number of rows of A.
        side: ``"source"`` or ``"target"``.

    Raises:
        UserError: if ``tokens > positions``.
    """
    if tokens > positions:
        raise UserError(
            f"a {side} sentence of {tokens} tokens (end of sentence included) is longer than the "
            f"{positions} positions that this model has: train with "
            f"--max-{side}-positions {tokens} or more, or shorten or leave out the sentence"
        )
