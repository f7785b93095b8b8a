"""Checkpoints of fairseq: read as data, of which nothing is run; written whole or not at all."""

import argparse
import contextlib
import io
import pickle
import pickletools
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from resmlp_mt.checkpoints.checking import check_finite, check_options
from resmlp_mt_runtime.errors import UserError, printable
from resmlp_mt_runtime.files import whole_file

# ---- what PyTorch's weights-only loader finds under the names of classes --------------------
#
# fairseq stores options in a Namespace, perhaps its best loss in a scalar of NumPy and, after
# --eval-bleu, counts of n-grams in arrays of int64. If numpy.ndarray were allowed, a file could
# call it: ndarray((1,), "O", b"AAAAAAAA") is an array of pointers of the file's choice. NumPy's can
# go when fairseq saves none.


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
torch.serialization.add_safe_globals([(each, name) for name, each in STAND_INS.items()])

# ---- reading and writing --------------------------------------------------------------------

LARGEST = 4 << 20  # bytes of the pickled part, in which each weight takes some 150
# PyTorch allows more, such as bytearray, which takes any memory that a file asks for
ALLOWED = {*STAND_INS, "collections.OrderedDict", "_codecs.encode"}
ALLOWED |= {f"torch._utils._rebuild_{kind}" for kind in ("tensor", "tensor_v2", "parameter")}
for kind in ("Double", "Float", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"):
    ALLOWED.add(f"torch.{kind}Storage")


def read_checkpoint(path: str | Path, mapped: bool = False) -> dict:
    """A checkpoint, checked, on the CPU. *mapped* leaves the tensors in the file until they are
    used. Raises UserError for any other file, and OSError."""
    archive = False
    try:
        archive = check_file(path)
        # files of PyTorch before 1.6 are not archives and cannot be mapped
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped and archive)
    except (UserError, MemoryError):
        raise
    except OSError as error:
        error.filename = str(path)
        raise
    except pickle.UnpicklingError as error:
        wrong = f"{path} is not a checkpoint, or contains more than data (such as code)"
        raise UserError(f"{wrong}: refused, and nothing in it was run") from error
    except Exception as error:  # a corrupt file can raise anything
        message = printable(str(error).split("\n")[0])[:120]
        reason = f" ({type(error).__name__}: {message})" if archive else ""
        wrong = f"{path} is damaged, or not a fairseq checkpoint{reason}"
        raise UserError(f"{wrong}: copy or make it again") from error
    if not isinstance(state, dict) or "model" not in state:
        raise UserError(f"{path} is not a fairseq checkpoint: it has no model in it")
    weights = state["model"]
    if not isinstance(weights, dict) or not all(
        isinstance(name, str) and isinstance(weight, Tensor) for name, weight in weights.items()
    ):
        raise UserError(f"{path} is not a fairseq checkpoint: its model is more than tensors")
    check_options(state, path)
    check_finite(weights, path)
    return state


def check_file(path: str | Path) -> bool:
    """Refuse a file that is damaged, or that would take more memory than its size suggests, before
    it is loaded. Returns whether it is an archive; files of PyTorch before 1.6 are not."""
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            file.seek(0)
            _check_pickles(file, 5)  # a magic number, a version, sizes, the checkpoint, its keys
            return False
        try:
            archive = zipfile.ZipFile(file)
            records = archive.infolist()
            # PyTorch compresses nothing
            stored = all(record.compress_type == zipfile.ZIP_STORED for record in records)
            # with set_crc32_options(False) all checksums are 0; PyTorch compares none
            if not stored or (any(record.CRC for record in records) and archive.testzip()):
                raise zipfile.BadZipFile
        except Exception:  # a corrupt file can raise anything
            raise UserError(f"{path} is damaged or cut off: copy or make it again") from None
        for record in records:
            if record.filename.lower().endswith("data.pkl"):
                record.CRC = None  # type: ignore[assignment]  # compared above, if there are any
                with archive.open(record) as pickled:
                    _check_pickles(pickled, 1)
    return True


def _check_pickles(file: IO[bytes], number: int) -> None:
    start = io.BytesIO(file.read(LARGEST))
    for _ in range(number):
        for code, argument, _ in pickletools.genops(start):
            if code.name == "GLOBAL" and str(argument).replace(" ", ".") not in ALLOWED:
                raise pickle.UnpicklingError(argument)


def options_of(state: dict, group: str) -> Any:
    """A checkpoint's options of a *group* such as "task", to read and change; ``{}`` if none."""
    options = state.get("args")  # old checkpoints have all options in one namespace
    if options is None:
        options = state.get("cfg")
        options = options.get(group) if isinstance(options, Mapping) else options
    options = vars(options) if isinstance(options, argparse.Namespace) else options
    return options if isinstance(options, Mapping) else {}


def languages_of(state: dict) -> tuple[Any, Any]:
    """Source and target of a checkpoint, each None if its training was not told it."""
    task = options_of(state, "task")
    return task.get("source_lang"), task.get("target_lang")


def write_checkpoint(state: dict, output: Path) -> None:
    """Write a checkpoint, whole or not at all."""
    with writing(output) as temporary, open(temporary, "wb") as file:
        torch.save(state, file)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Path]:
    """:func:`whole_file`, where a full disk is a UserError."""
    try:
        with whole_file(path) as temporary:
            yield temporary
    except (OSError, RuntimeError) as error:
        cause = error  # PyTorch's writer raises another error over the system's
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__context__
        if cause is None:
            raise
        reason = cause.strerror or cause
        remedy = "make room there, and run the same command again"
        raise UserError(f"{path} could not be written ({reason}): {remedy}") from error
