"""Errors that a user can mend: one line that names what is wrong, the numbers and what to do."""


class UserError(ValueError):
    """Wrong input or options. Its message is one line, fit to be shown without a traceback."""


class OptionError(UserError):
    """The value of an option does not suit the text. The user will give another one, so nothing
    that was made with this one is kept."""
