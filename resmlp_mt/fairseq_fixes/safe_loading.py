"""The weights-only loader of PyTorch reads the checkpoints of a translation model.

They hold their options in an ``argparse.Namespace`` and, after ``--eval-bleu``, n-gram counts in
NumPy arrays of int64. Neither is on the list of the loader, so that nothing of fairseq loads
without this. It can go when fairseq saves neither.

To allow ``numpy.ndarray`` and ``numpy.dtype`` is to let a file call them:
``ndarray((1,), "O", b"AAAAAAAA")`` is an array of pointers that the file chooses. So the loader is
given what stands here under the names of NumPy, and it makes arrays of int64 alone. Whatever else a
file asks to have built is still refused.
"""

import argparse
import pickle

import numpy as np
import torch


class _Int64:
    """Stands for ``numpy.dtype``: little-endian int64, whatever else it is given is refused."""

    def __init__(self, name, *flags):
        if name != "i8":
            raise pickle.UnpicklingError(f"an array of {name}")

    def __setstate__(self, state):
        if tuple(state[1:5]) != ("<", None, None, None):  # byte order, sub-array, names, fields
            raise pickle.UnpicklingError("an array of another type than int64")


class _Array(np.ndarray):
    """Stands for ``numpy.ndarray``: what it gets is copied from bytes that are as many as its
    shape needs. It pickles as a plain array, and arithmetic on it gives plain arrays."""

    def __new__(cls, *args, **kwargs):
        raise pickle.UnpicklingError("an array in a form that NumPy does not pickle")

    def __setstate__(self, state):
        try:
            _, shape, dtype, by_columns, raw = state
            if type(dtype) is not _Int64 or type(raw) is not bytes:
                raise ValueError
            # it refuses shapes that are none and those that need more or fewer bytes
            array = np.frombuffer(raw, "<i8").reshape(shape, order="F" if by_columns else "C")
        except (ValueError, TypeError, OverflowError):
            raise pickle.UnpicklingError("an array of another type than int64") from None
        super().__setstate__((1, array.shape, np.dtype(np.int64), False, array.tobytes()))

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return np.asarray(array)[()]

    def __reduce__(self):
        return np.array(self).__reduce__()

    def __reduce_ex__(self, protocol):
        return np.array(self).__reduce_ex__(protocol)


def _rebuild(kind, shape, code):
    """Stands for ``_reconstruct`` of NumPy: an empty array, whose state is to come."""
    return np.ndarray.__new__(_Array, (0,), np.int64)


# arrays by NumPy 1 and 2
torch.serialization.add_safe_globals(
    [
        argparse.Namespace,
        (_Array, "numpy.ndarray"),
        (_Int64, "numpy.dtype"),
        (_rebuild, "numpy.core.multiarray._reconstruct"),
        (_rebuild, "numpy._core.multiarray._reconstruct"),
    ]
)
