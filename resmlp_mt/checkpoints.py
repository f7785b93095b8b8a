"""Checkpoints: read as data and checked, written whole or not at all, averaged."""

import argparse
import contextlib
import pickle
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from resmlp_mt.errors import UserError
from resmlp_mt.files import check_output, whole_file

# ---- what the weights-only loader lets pass -------------------------------------------------
#
# A checkpoint holds its options in a Namespace, perhaps its best loss in a scalar of NumPy and,
# after --eval-bleu, counts of n-grams in NumPy arrays of int64. If numpy.ndarray were allowed, a
# file could call it: ndarray((1,), "O", b"AAAAAAAA") is an array of pointers of the file's choice.
# So the loader finds these classes under NumPy's names. They can go when fairseq saves none of
# these.


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


torch.serialization.add_safe_globals(
    [
        argparse.Namespace,
        (_Array, "numpy.ndarray"),
        (_Type, "numpy.dtype"),
        # of NumPy 1, and of NumPy 2
        (_rebuild, "numpy.core.multiarray._reconstruct"),
        (_rebuild, "numpy._core.multiarray._reconstruct"),
        (_scalar, "numpy.core.multiarray.scalar"),
        (_scalar, "numpy._core.multiarray.scalar"),
    ]
)


MOST, DEEPEST = 100_000, 20  # values of all options, and how deeply they are nested


def read_checkpoint(path: str | Path, mapped: bool = False) -> dict:
    """A checkpoint of fairseq, checked, on the CPU; nothing in it is run. *mapped* leaves the
    tensors in the file until they are used."""
    try:
        check_records(path)
        # files of PyTorch before 1.6 are no zip archives and cannot be mapped
        mapped = mapped and zipfile.is_zipfile(path)
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except (UserError, MemoryError):
        raise
    except OSError as error:
        error.filename = str(path)
        raise
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} is not a checkpoint, or carries more than data (such as code): "
            "refused, and nothing in it was run"
        ) from error
    except Exception as error:  # a corrupt file can raise anything
        message = " ".join(str(error).split("\n")[0].split())[:120]
        raise UserError(
            f"{path} is damaged, or no checkpoint of fairseq ({type(error).__name__}: {message}): "
            "copy or make it again"
        ) from error
    if not isinstance(state, dict) or "model" not in state:
        raise UserError(f"{path} is not a fairseq checkpoint: it has no model in it")
    weights = state["model"]
    if not isinstance(weights, dict) or not all(
        isinstance(name, str) and is_strided(weight) for name, weight in weights.items()
    ):
        raise UserError(f"{path} is not a fairseq checkpoint: its model is more than tensors")
    check_options(state, path)
    check_finite(weights, path)
    return state


def check_records(path: str | Path) -> None:
    """Compare each record with its checksum (CRC-32), which PyTorch does not. Files of PyTorch
    before 1.6 have none, and with ``set_crc32_options(False)`` all are 0."""
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            return
        try:
            with zipfile.ZipFile(file) as archive:
                records = archive.infolist()
                if any(record.CRC for record in records) and (
                    archive.testzip()
                    # PyTorch compresses nothing
                    or any(record.compress_size != record.file_size for record in records)
                ):
                    raise zipfile.BadZipFile
        except Exception:  # a corrupt file can raise anything
            raise UserError(f"{path} is damaged or cut off: copy or make it again") from None


def check_options(state: dict, path: str | Path) -> None:
    """Refuse a checkpoint whose options are more than numbers, booleans, None, strings, and lists
    and dicts of these."""
    options: list[tuple] = [(name, state.get(name), 0) for name in ("args", "cfg")]
    for name, value, depth in options:  # it grows
        if isinstance(value, argparse.Namespace):
            value = vars(value)
        inner: list[tuple] = []
        if isinstance(value, dict):
            inner = list(value.items())
        elif isinstance(value, (list, tuple)) and depth:
            inner = [(name, each) for each in value]
        elif value is not None and not (depth and type(value) in (bool, int, float, str)):
            raise UserError(f"{path}: its option {name} is not data, but {type(value).__name__}")
        elif isinstance(value, str) and "${" in value:  # a variable of the shell, for example
            raise UserError(f"{path}: its option {name}, {value!r:.60}, stands for another value")
        if type(name) not in (str, int):
            raise UserError(f"{path}: the name of an option is not text: {type(name).__name__}")
        if depth > DEEPEST or len(options) + len(inner) > MOST:
            raise UserError(f"{path}: its option {name} is nested too deeply or too long")
        options += [(key, each, depth + 1) for key, each in inner]


def check_finite(weights: dict[str, Tensor], path: str | Path) -> None:
    """Refuse NaN, infinite and repeated values. What is not a tensor in memory is not checked."""
    for name, weight in weights.items():
        if not is_strided(weight):
            continue
        # repeated, like by Tensor.expand: a small file claims any size
        if weight.numel() * weight.element_size() > weight.untyped_storage().nbytes():
            raise UserError(
                f"{path}: {name} claims more values than there are in the file: give a checkpoint "
                "that fairseq wrote"
            )
        if not (weight.is_floating_point() and weight.numel()):
            continue
        # both are NaN if any value is; this takes a tenth of the time of torch.isfinite on all
        extremes = torch.stack(torch.aminmax(weight.detach()))
        if not torch.isfinite(extremes).all():
            raise UserError(
                f"{path}: {name} has NaN or infinite values: its training diverged: give an "
                "earlier checkpoint"
            )


@contextlib.contextmanager
def not_larger_than(weights: dict[str, Tensor]) -> Iterator[None]:
    """Refuse to build a model with many more parameters than *weights* in the block, before memory
    is taken for them."""
    # a model may share some, or have a few that are not stored
    number = 2 * len(weights) + 100
    values = 2 * sum(weight.numel() for weight in weights.values()) + (1 << 20)

    def count(module, name, parameter) -> None:
        nonlocal number, values
        number, values = number - 1, values - (0 if parameter is None else parameter.numel())
        if number < 0 or values < 0:
            raise UserError("its options are of a larger model than its weights: it is damaged")

    kinds = (register_module_parameter_registration_hook, register_module_buffer_registration_hook)
    with contextlib.ExitStack() as stack:
        for register in kinds:
            stack.callback(register(count).remove)
        yield


def is_strided(value) -> bool:
    """Whether it is a tensor with values in memory."""
    return (
        isinstance(value, Tensor)
        and value.layout == torch.strided
        and value.device.type != "meta"
        and not value.is_quantized
    )


@contextlib.contextmanager
def naming(path, what: str) -> Iterator[None]:
    """Errors about a checkpoint name it. Those that no user can correct keep their type and
    message and get a note, *path* *what*, which fairseq's programs and ours print in one line."""
    try:
        yield
    except UserError as error:
        if str(path) in str(error):
            raise
        raise UserError(f"{path}: {error}") from error
    except OSError as error:
        if not error.strerror or error.filename in (None, path, str(path)):
            raise
        raise UserError(
            f"{path} needs {error.filename} ({error.strerror}): give the data folder that it was "
            "trained on"
        ) from error
    except Exception as error:
        # fairseq's trainer raises an exception of its own over any other
        if "please ensure that the architectures match" in str(error) and error.__context__:
            error = error.__context__
        if "Error(s) in loading state_dict" in str(error):
            first = str(error).split("\n")[1].strip()  # the line after the heading
            first = first.split(", ")[0] if "key(s)" in first else first
            raise UserError(
                f"{path} does not fit the model: it was trained with another architecture, other "
                f"options or another dictionary: {first}"
            ) from error
        if "Size of sample #" not in str(error):  # about a sentence
            error.add_note(f"{path} {what}")
        raise error


def write_checkpoint(state: dict, output: Path, remedy: str = "choose another folder") -> None:
    """Write a checkpoint, whole or not at all."""
    with writing(output, remedy) as temporary, open(temporary, "wb") as file:
        torch.save(state, file)


@contextlib.contextmanager
def writing(path: Path, remedy: str) -> Iterator[Path]:
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
        raise UserError(f"{path} could not be written ({reason}): {remedy}") from error


# one per epoch, and one per --save-interval-updates
_NUMBERED = {"epoch": r"checkpoint(\d+)\.pt", "update": r"checkpoint_\d+_(\d+)\.pt"}


def last_checkpoints(save_dir: Path, count: int, by: str) -> list[Path]:
    """The *count* newest checkpoints by "epoch" or "update", newest first, or all of a short
    training. fairseq numbers none where a training ends within an epoch, so ``checkpoint_last.pt``
    counts if it is newer."""
    numbers = {}
    for path in Path(save_dir).glob("checkpoint*.pt"):
        match = re.fullmatch(_NUMBERED[by], path.name)
        if match:
            numbers[int(match[1])] = path
    found = [numbers[number] for number in sorted(numbers, reverse=True)][:count]
    last = Path(save_dir) / "checkpoint_last.pt"
    if last.is_file() and (not found or _updates(last) > _updates(found[0])):
        found = [last, *found]
    if not found:
        raise UserError(f"{save_dir} has no {by} checkpoints and no {last.name}: train first")
    return found[:count]


def _updates(path: Path) -> int:
    state = read_checkpoint(path, mapped=True)
    with naming(path, "does not say how many updates it has"):
        return int(state["optimizer_history"][-1]["num_updates"])


def _owners(weights: dict[str, Tensor]) -> dict[str, str]:
    """For each name the first one of the same matrix: shared embeddings have three names."""
    first: dict = {}
    return {
        name: first.setdefault((value.data_ptr(), value.shape, value.stride()), name)
        for name, value in weights.items()
    }


def average_checkpoints(paths: list[Path], output: Path, float16: bool = False) -> None:
    """Write the mean of the weights of *paths*, in float32 or wider unless *float16* is set; the
    rest is that of the first file, without the optimizer. Files are mapped: memory is that of the
    sums, in float64."""
    check_output(output, *paths)
    result = read_checkpoint(paths[0], mapped=True)
    result.pop("last_optimizer_state", None)
    first = result["model"]
    owners = _owners(first)
    means = {
        name: first[name].double()
        for name in dict.fromkeys(owners.values())
        if first[name].is_floating_point()  # others count something, such as a version
    }
    for path in paths[1:]:
        weights = read_checkpoint(path, mapped=True)["model"]
        if _owners(weights) != owners or any(
            weights[name].shape != mean.shape for name, mean in means.items()
        ):
            raise UserError(
                f"{path} and {paths[0]} have different parameters: average those of one run"
            )
        for name, mean in means.items():
            mean += weights[name]
    for name, mean in means.items():
        dtype = torch.promote_types(first[name].dtype, torch.float32)
        means[name] = (mean / len(paths)).to(torch.float16 if float16 else dtype)
    result["model"] = {name: means.get(owner, first[owner]) for name, owner in owners.items()}
    write_checkpoint(result, output)


def model_options(state: dict) -> dict:
    """The model's options in a checkpoint, whether trained by command line or hydra."""
    options = state["cfg"]["model"]
    return options if isinstance(options, dict) else vars(options)
