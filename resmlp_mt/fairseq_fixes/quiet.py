"""fairseq is imported without a word, and leaves the logging of its importer alone.

Without this, each of our programs begins with a warning, and everything is logged to the terminal
at every level. It can go when ``python -c "import fairseq"`` prints nothing and leaves the root
logger as it was.
"""

import contextlib
import logging
import warnings


def ignore_old_scripting() -> None:
    """fairseq compiles functions by ``torch.jit.script`` when it is imported. PyTorch 2.15 warns of
    that on standard error, each time, and no user can mend it."""
    warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", FutureWarning)


@contextlib.contextmanager
def logging_as_before():
    """Some of the modules of fairseq set the root logger to DEBUG, with a handler, when imported.

    Within this context nothing below WARNING is logged, and afterwards the root logger is as it
    was. The programs of fairseq set up their own logging before they import anything: it stays.
    """
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(disabled)
        root.handlers[:] = handlers
        root.setLevel(level)
