"""Import fairseq without its taking over the importer's logging."""

import contextlib
import logging


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
