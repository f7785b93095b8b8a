"""Where our parts meet fairseq: what is registered with it, and what is replaced in it."""

import contextlib
import logging
import warnings
from collections.abc import Iterator

from resmlp_mt.patching import without_examples


def register() -> None:
    """Register our model, search, optimizer and loss with fairseq in this process, and repair it:
    ``patching.REPLACEMENTS`` lists what is replaced."""
    with logging_as_before(), without_examples(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about code of fairseq, which no user can correct
        from resmlp_mt import loss, muon  # noqa: F401
        from resmlp_mt.fairseq_fixes import results, safety, stopping, trainings  # noqa: F401
        from resmlp_mt.model import architectures  # noqa: F401
        from resmlp_mt.search import beam_search  # noqa: F401
    # fairseq pins memory without a GPU too
    warnings.filterwarnings("ignore", "'pin_memory' argument is set as true")


@contextlib.contextmanager
def logging_as_before() -> Iterator[None]:
    """Log nothing below WARNING in the block, and restore the root logger: several modules of
    fairseq call ``logging.basicConfig`` when imported, one with level DEBUG."""
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(disabled)
        root.handlers[:] = handlers
        root.setLevel(level)
