"""Import fairseq without its taking over the importer's logging, or warnings of its own."""

import contextlib
import logging
import warnings


def ignore_old_scripting() -> None:
    """fairseq compiles functions by ``torch.jit.script`` when it is imported, of which PyTorch 2.15
    warns on standard error, each time: nothing that a user can mend."""
    warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", FutureWarning)


@contextlib.contextmanager
def logging_as_before():
    """Some of fairseq's modules set the root logger to DEBUG, with a handler, when imported.

    Within this context nothing below WARNING is logged, and afterwards the root logger is as it
    was. fairseq's programs set up their own logging before they import anything: it stays.
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
