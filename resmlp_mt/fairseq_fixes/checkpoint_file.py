"""Whether a checkpoint is still what its writer wrote, with finite weights.

The reader of PyTorch leaves the checksums in its own files unchecked. A flipped bit in a tensor
loads unnoticed, and the model translates with it.
"""

import zipfile
from pathlib import Path
from typing import Dict, Union

import torch
from torch import Tensor

from resmlp_mt.errors import UserError

_ZIP = b"PK\x03\x04"  # by these bytes torch.load tells its archives from its files before 1.6
_BLOCK = 1 << 20  # bytes read at a time


def check_records(path: Union[str, Path]) -> None:
    """Compare every record of a checkpoint with its checksum (CRC-32).

    Nothing is checked in a file without checksums: one that PyTorch before 1.6 wrote, or PyTorch
    with ``set_crc32_options(False)``, which makes all of them 0.

    Raises:
        UserError: if they differ.
        OSError: if the file cannot be read.
    """
    with open(path, "rb") as file:
        if file.read(len(_ZIP)) != _ZIP:
            return
        try:
            with zipfile.ZipFile(file) as archive:
                records = archive.infolist()
                if any(record.CRC for record in records):
                    for record in records:
                        _check_record(archive, record)
        except OSError:
            raise
        except Exception:  # what a damaged archive makes of zipfile is beyond listing
            raise UserError(f"{path} is damaged or cut off: copy or make it again") from None


def _check_record(archive: zipfile.ZipFile, record: zipfile.ZipInfo) -> None:
    if record.compress_size != record.file_size:  # PyTorch compresses nothing
        raise zipfile.BadZipFile(record.filename)
    with archive.open(record) as content:
        while content.read(_BLOCK):  # at the record's end the checksum is compared
            pass


def check_finite(weights: Dict[str, Tensor], path: Union[str, Path]) -> None:
    """
    Args:
        weights: parameters by name; what is no tensor of real numbers in memory is left alone.
        path: their file.

    Raises:
        UserError: naming the first of them that has a NaN or infinite value, or that repeats its
            values in memory: to read it takes the time of the size it claims.
    """
    for name, weight in weights.items():
        if not is_strided(weight):
            continue
        if not is_dense(weight):
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


def is_dense(value) -> bool:
    """Whether it is a tensor whose values are in memory one by one, and not some of them repeated
    (as :meth:`torch.Tensor.expand` does), which lets a small file claim any size."""
    if not is_strided(value):
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def is_strided(value) -> bool:
    """Whether it is a tensor with values in memory, at steps of any length, which may be 0."""
    return (
        isinstance(value, Tensor)
        and value.layout == torch.strided
        and value.device.type != "meta"
        and not value.is_quantized
    )
