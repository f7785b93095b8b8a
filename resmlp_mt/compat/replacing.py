"""Put a function of ours in the place of one of fairseq's."""

import functools
from typing import Callable


def replace_once(owner, name: str) -> Callable[[Callable], None]:
    """A decorator: the function, which is given the original first, stands for ``owner.name``.

    Another import of this package finds it replaced and leaves it.

    Args:
        owner: a module or class of fairseq's.
        name: its function or method.
    """

    def install(function):
        original = getattr(owner, name)
        if hasattr(original, "replaced_by_resmlp_mt"):
            return

        @functools.wraps(original)
        def replaced(*args, **kwargs):
            return function(original, *args, **kwargs)

        replaced.replaced_by_resmlp_mt = True
        setattr(owner, name, replaced)

    return install
