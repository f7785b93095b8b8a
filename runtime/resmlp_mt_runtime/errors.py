"""The error that a user can correct."""


class UserError(ValueError):
    """Wrong input or options. Its message is one line, fit to be shown without a traceback."""
