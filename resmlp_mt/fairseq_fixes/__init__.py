"""What fairseq needs today, in three files: wrong results, trainings, errors and noise.

Each repair says what breaks without it and which test shows when it can go. :func:`apply` makes
them all. Importing this package only makes ``import fairseq`` quiet and quick.
"""

import contextlib
import functools
import importlib.util
import logging
import sys
import warnings
from collections.abc import Callable
from types import ModuleType

# fairseq imports them for two files that are not about translation: a third of its start
SLOW = ("sklearn", "sklearn.metrics", "scipy.stats")


def apply() -> None:
    """Repair fairseq in this process and register our model and optimizer."""
    with logging_as_before():
        for name in ("model.architectures", "search.beam_search", "muon", "loss"):
            importlib.import_module(f"resmlp_mt.{name}")
        for name in ("safety", "results", "trainings", "stopping"):
            importlib.import_module(f"{__name__}.{name}")


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


class _StandIn(ModuleType):
    """A module whose functions import the true one when they are called."""

    def __getattr__(self, name: str):
        # what the import system asks of a module
        if name.startswith("__") or f"{self.__name__}.{name}" in SLOW:
            raise AttributeError(name)
        module = self.__name__
        return lambda *args, **kw: getattr(importlib.import_module(module), name)(*args, **kw)


@contextlib.contextmanager
def _stand_ins():
    """Stand-ins in the block for those modules in :data:`SLOW` that are not loaded."""
    names = [name for name in SLOW if name not in sys.modules]
    sys.modules |= {name: _StandIn(name) for name in names}
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


class _QuietImport:
    """In ``sys.meta_path``. Without it, fairseq leaves the root logger at DEBUG, with a handler. It
    can go when ``import fairseq`` leaves the root logger alone (``test_quiet_start``)."""

    def find_spec(self, name, path=None, target=None):
        if name != "fairseq":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                # about code of fairseq: no user can mend it
                warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", FutureWarning)
                warnings.filterwarnings("ignore", ".*invalid escape", SyntaxWarning)
                warnings.filterwarnings("ignore", "'pin_memory' argument", UserWarning)
                with logging_as_before(), _stand_ins():
                    execute(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if "fairseq" not in sys.modules:
    sys.meta_path.insert(0, _QuietImport())


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
