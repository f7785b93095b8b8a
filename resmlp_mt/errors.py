"""Errors that a user can mend: one line that names what is wrong, the numbers and what to do."""


class UserError(ValueError):
    """Wrong input or options. Its message is one line, fit to be shown without a traceback."""


class OptionError(UserError):
    """An option that does not fit the text. Another value is what the user gives next."""
