"""fairseq imports scikit-learn and SciPy for two files that are not of translation: a third of the
time in which a program starts. Here they are imported when one of their functions is called.

It can go when ``python -X importtime -c "import fairseq.tasks"`` names neither.
"""

import contextlib
import sys
from importlib import import_module
from types import ModuleType
from typing import Iterator

NAMES = ("sklearn", "sklearn.metrics", "scipy.stats")


class _StandIn(ModuleType):
    """A module whose functions import the true one when they are called."""

    def __getattr__(self, name: str):
        if name.startswith("__"):  # what the import system asks of a module
            raise AttributeError(name)
        return lambda *args, **kwargs: getattr(import_module(self.__name__), name)(*args, **kwargs)


@contextlib.contextmanager
def imported_when_called() -> Iterator[None]:
    """What is imported in the block finds stand-ins of the modules in :data:`NAMES`. Where one of
    them or fairseq is there already, nothing changes."""
    if any(name in sys.modules for name in ("fairseq", *NAMES)):
        yield
        return
    stand_ins = {name: _StandIn(name) for name in NAMES}
    stand_ins["sklearn"].metrics = stand_ins["sklearn.metrics"]
    sys.modules |= stand_ins
    try:
        yield
    finally:
        for name in NAMES:
            del sys.modules[name]
