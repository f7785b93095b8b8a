"""What fairseq needs today: results, trainings, stopping, safety.

Each repair says what breaks without it and which test shows when it can go. :func:`apply` makes
them all; importing this package changes nothing.
"""

import contextlib
import functools
import importlib
import logging
import sys
import warnings
from collections.abc import Callable
from types import ModuleType


def apply() -> None:
    """Repair fairseq in this process, and register our model, search, optimizer and loss."""
    with logging_as_before(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about code of fairseq, which no user can correct
        for name in ("model.architectures", "search.beam_search", "muon", "loss"):
            importlib.import_module(f"resmlp_mt.{name}")
        for name in ("safety", "results", "trainings", "stopping"):
            importlib.import_module(f"{__name__}.{name}")
    # fairseq pins memory without a GPU too
    warnings.filterwarnings("ignore", "'pin_memory' argument is set as true")


@contextlib.contextmanager
def logging_as_before():
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


def replace(owner, name: str) -> Callable[[Callable], Callable]:
    """A decorator: the function replaces ``owner.name`` and gets the original first."""

    def install(function):
        original = getattr(owner, name)

        @functools.wraps(original)
        def replaced(*args, **kwargs):
            return function(original, *args, **kwargs)

        setattr(owner, name, replaced)
        return function

    return install


def running(program: ModuleType) -> ModuleType:
    """The module whose functions run: ``python -m fairseq_cli.train``, as torchrun starts it, runs
    a copy of *program*."""
    main = sys.modules["__main__"]
    copy = getattr(getattr(main, "__spec__", None), "name", None) == program.__name__
    return main if copy else program
