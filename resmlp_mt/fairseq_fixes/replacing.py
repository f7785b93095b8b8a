"""Put a function of ours in the place of one of fairseq's."""

import functools
import sys
from types import ModuleType
from typing import Callable


def replace_once(owner, name: str) -> Callable[[Callable], Callable]:
    """A decorator: the function, which is given the original first, stands for ``owner.name``.

    A second copy of this package in the same process finds it replaced and leaves it.

    Args:
        owner: a module or class of fairseq.
        name: its function or method.
    """

    def install(function):
        original = getattr(owner, name)
        ours = f"{function.__module__}.{function.__name__}"
        before = getattr(original, "replaced_by", ())
        if ours not in before:

            @functools.wraps(original)
            def replaced(*args, **kwargs):
                return function(original, *args, **kwargs)

            replaced.replaced_by = (*before, ours)
            setattr(owner, name, replaced)
        return function

    return install


def running(program: ModuleType) -> ModuleType:
    """The module whose functions run: ``python -m fairseq_cli.train``, as torchrun starts it, has
    a copy of those of *program*. A process that such a program spawns has another one, which is not
    reached."""
    main = sys.modules["__main__"]
    copy = getattr(getattr(main, "__spec__", None), "name", None) == program.__name__
    return main if copy else program
