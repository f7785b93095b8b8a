"""What PyTorch's weights-only loader finds under the names of classes in a checkpoint.

fairseq stores options in a Namespace, perhaps its best loss in a scalar of NumPy and, after
--eval-bleu, counts of n-grams in arrays of int64. If numpy.ndarray were allowed, a file could call
it: ndarray((1,), "O", b"AAAAAAAA") is an array of pointers of the file's choice. NumPy's can go
when fairseq saves none.
"""

import argparse
import pickle

import numpy as np


class _Type:
    """Stands for ``numpy.dtype``: little-endian numbers, nothing else."""

    def __init__(self, name, *flags):
        if name not in ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"):
            raise pickle.UnpicklingError(f"NumPy's type {name}")
        self.name = f"<{name}"

    def __setstate__(self, state):
        # byte order, sub-array, names, fields
        if state[1] not in ("<", "|") or tuple(state[2:5]) != (None, None, None):
            raise pickle.UnpicklingError("a type of NumPy that is not a plain number")


def _scalar(kind, raw):
    """Stands for NumPy's ``scalar``, such as a best loss: a number of Python."""
    if type(kind) is not _Type or type(raw) is not bytes:
        raise pickle.UnpicklingError("a scalar of NumPy that is not a number")
    (value,) = np.frombuffer(raw, kind.name)
    return value.item()


class _Array(np.ndarray):
    """Stands for ``numpy.ndarray``. Pickling and arithmetic give plain arrays."""

    def __new__(cls, *args, **kwargs):
        raise pickle.UnpicklingError("an array in a form that NumPy does not pickle")

    def __setstate__(self, state):
        _, shape, kind, by_columns, raw = state
        if type(kind) is not _Type or kind.name != "<i8" or type(raw) is not bytes:
            raise pickle.UnpicklingError("an array of another type than int64")
        # refuses invalid shapes, and those that need more or fewer bytes
        array = np.frombuffer(raw, "<i8").reshape(shape, order="F" if by_columns else "C")
        super().__setstate__((1, array.shape, np.dtype(np.int64), False, array.tobytes()))  # type: ignore

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return np.asarray(array)[()]

    def __reduce_ex__(self, protocol):
        return np.array(self).__reduce_ex__(protocol)


def _rebuild(kind, shape, code):
    """Stands for NumPy's ``_reconstruct``: an empty array, whose state is to come."""
    return np.ndarray.__new__(_Array, (0,), np.int64)


STAND_INS = {
    "argparse.Namespace": argparse.Namespace,
    "numpy.ndarray": _Array,
    "numpy.dtype": _Type,
    # of NumPy 1, and of NumPy 2
    "numpy.core.multiarray._reconstruct": _rebuild,
    "numpy._core.multiarray._reconstruct": _rebuild,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy._core.multiarray.scalar": _scalar,
}
