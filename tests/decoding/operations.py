"""What a computation asks of its device: operations by name, and waits of the host for a value."""

from collections import Counter

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# each needs a value, or a number of values, on the host before it can go on; tolist() calls
# resolve_conj, and nothing else here does
_WAITS = {
    *("_local_scalar_dense", "item", "is_nonzero", "nonzero", "equal", "masked_select"),
    *("resolve_conj", "unique", "_unique2", "unique_consecutive", "unique_dim", "allclose"),
}
_COPIES = {"_to_copy", "to", "copy_", "cpu"}


class Operations(TorchDispatchMode):
    """Counts what PyTorch dispatches while it is entered.

    Attributes:
        work: operations that compute or copy, each a launch on a GPU.
        views: operations that give another view of the same memory, which a device never sees.
        waits: operations for which the host would wait for a GPU.
    """

    def __init__(self) -> None:
        super().__init__()
        self.work: Counter = Counter()
        self.views: Counter = Counter()
        self.waits: Counter = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        given = [x for x in given if not x.is_mkldnn]  # a packed weight, whose memory is hidden
        made = [x for x in tree_leaves(out) if isinstance(x, Tensor)]
        if _waits(name, func, args, given, made):
            self.waits[name] += 1
        elif not func._schema.is_mutable and made and _shared(made, given):
            self.views[name] += 1
        else:
            self.work[name] += 1
        return out


def _shared(some, others) -> bool:
    memory = {x.untyped_storage().data_ptr() for x in others}
    return all(x.untyped_storage().data_ptr() in memory for x in some)


def _waits(name: str, func, args, given, made) -> bool:
    if name in _WAITS or (name == "repeat_interleave" and func._overloadname != "self_int"):
        return True
    if name in _COPIES:
        return made[0].device.type == "cpu" and any(x.device.type != "cpu" for x in given)
    if name in ("index", "index_put", "index_put_"):
        # the size of what a mask chooses is known when the mask is
        indices = [x for x in tree_leaves(args[1]) if isinstance(x, Tensor)]
        return any(x.dtype in (torch.bool, torch.uint8) for x in indices)
    return False
