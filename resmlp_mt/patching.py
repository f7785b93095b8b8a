"""Functions of fairseq that are replaced in this process, and why.

The first line of a replacement's docstring says what it changes; the rest says what is wrong
without it, and names the tests that show when it can go.
"""

import contextlib
import functools
import logging
import sys
from collections.abc import Callable, Iterator


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


@contextlib.contextmanager
def without_examples() -> Iterator[None]:
    """Import nothing called ``examples`` in the block: fairseq tries to, silently, and would run
    the code of a folder of that name, perhaps in the working directory."""
    before = sys.modules.get("examples", sys)
    sys.modules["examples"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["examples"]
        if before is not sys:
            sys.modules["examples"] = before


@contextlib.contextmanager
def logging_as_before(silent: int = logging.INFO) -> Iterator[None]:
    """Log nothing up to the level *silent* in the block, and restore the root logger: several
    modules of fairseq call ``logging.basicConfig`` when imported, one with level DEBUG."""
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, root.manager.disable
    logging.disable(silent)
    try:
        yield
    finally:
        logging.disable(disabled)
        root.handlers[:] = handlers
        root.setLevel(level)
