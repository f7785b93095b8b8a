"""Functions of fairseq that are replaced in this process, and why.

The first line of a replacement's docstring says what it changes; the rest says what is wrong
without it, and names the tests that show when it can go.
"""

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import NamedTuple

TRIED = "0.12.3.1"  # the version of fairseq-fixed that the replacements are written for


class Replacement(NamedTuple):
    """``owner.name`` of fairseq, and the docstring of what replaces it."""

    owner: str
    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.owner}.{self.name}: {self.reason.splitlines()[0].replace('``', '')}"


REPLACEMENTS: list[Replacement] = []


def note(owner, name: str, reason: str) -> None:
    """Add to the list of replacements."""
    where = getattr(owner, "__qualname__", "")
    owner = ".".join(filter(None, (getattr(owner, "__module__", owner.__name__), where)))
    REPLACEMENTS.append(Replacement(owner, name, inspect.cleandoc(reason)))


def replace(owner, name: str) -> Callable[[Callable], Callable]:
    """A decorator: the function replaces ``owner.name`` and gets the original first."""

    def install(function):
        original = getattr(owner, name)

        @functools.wraps(original)
        def replaced(*args, **kwargs):
            return function(original, *args, **kwargs)

        setattr(owner, name, replaced)
        note(owner, name, function.__doc__)
        return function

    return install


def running(program: ModuleType) -> ModuleType:
    """The module whose functions run: ``python -m fairseq_cli.train`` runs a copy of *program*."""
    main = sys.modules["__main__"]
    copy = getattr(getattr(main, "__spec__", None), "name", None) == program.__name__
    return main if copy else program


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
