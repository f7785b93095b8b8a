"""Errors that a user can mend: one line that names what is wrong, the numbers and what to do."""


class UserError(ValueError):
    """Wrong input or options. Its message is one line, fit to be shown without a traceback."""


class OptionError(UserError):
    """An option that does not fit the text. Another value is what the user gives next."""


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
