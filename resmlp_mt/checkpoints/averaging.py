"""Average the weights of several checkpoints of one run."""

import pickle
import re
import zipfile
from pathlib import Path
from typing import Dict, List, Optional

import torch
from torch import Tensor

from resmlp_mt.compat.checkpoint_file import check_finite, check_records, is_dense
from resmlp_mt.errors import UserError
from resmlp_mt.files import whole_file

# a run's checkpoints: one an epoch, and one every so many updates (--save-interval-updates)
_NUMBERED = {"epoch": r"checkpoint(\d+)\.pt", "update": r"checkpoint_\d+_(\d+)\.pt"}

_SUMS = 1 << 27  # bytes


def load_checkpoint(path: Path, mapped: bool = False, checked: bool = True) -> dict:
    """A fairseq checkpoint by PyTorch's weights-only loader, on the CPU.

    Args:
        path: the file.
        mapped: leave the tensors in the file until they are used: what is not used (such as the
            optimizer's state) takes no memory then.
        checked: compare its checksums and look for values that are no numbers, for which all of it
            is read once; needless where that has been done a moment before.

    Raises:
        UserError: missing, damaged, holding anything but data, not a fairseq checkpoint, or with
            weights that are no numbers.
    """
    try:
        if checked:
            check_records(path)
        # files of PyTorch before 1.6 are no zip archives and cannot be mapped
        mapped = mapped and zipfile.is_zipfile(path)
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: give a checkpoint that is there") from None
    except UserError:
        raise
    except pickle.UnpicklingError:
        raise UserError(
            f"{path} is no checkpoint, or one that carries more than data (such as code): refused"
        ) from None
    except Exception:  # what a damaged file makes of the loader is beyond listing
        raise UserError(f"{path} is damaged or cut off: copy or make it again") from None
    if not isinstance(state, dict) or "model" not in state:
        raise UserError(f"{path} is not a fairseq checkpoint: it has no model in it")
    weights = state["model"]
    if not isinstance(weights, dict) or not all(
        isinstance(name, str) and is_dense(weight) for name, weight in weights.items()
    ):
        raise UserError(f"{path} is not a fairseq checkpoint: its model is more than tensors")
    if checked:
        check_finite(weights, path)
    return state


def save_checkpoint(state: dict, output: Path) -> None:
    """Write a checkpoint, whole or not at all.

    Raises:
        UserError: if it cannot be written.
    """
    output = Path(output)
    if output.is_dir() or not output.parent.is_dir():
        wrong = "is a folder" if output.is_dir() else f"has no folder {output.parent} to be in"
        raise UserError(f"{output} {wrong}: name a file in a folder that is there")
    try:
        with whole_file(str(output)) as partial:
            torch.save(state, partial)
    except (OSError, RuntimeError) as error:  # PyTorch's writer raises the second on a full disk
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UserError(
            f"{output} could not be written ({reason}): choose a folder with room that can be"
        ) from None


def last_checkpoints(
    save_dir: Path, count: int, by: str = "epoch", upper_bound: Optional[int] = None
) -> List[Path]:
    """The *count* newest numbered checkpoints in *save_dir*, newest first.

    Args:
        save_dir: folder of checkpoints.
        count: how many.
        by: ``"epoch"`` (``checkpointN.pt``) or ``"update"`` (``checkpoint_EPOCH_N.pt``).
        upper_bound: the highest N to take.

    Raises:
        UserError: if there are fewer.
    """
    numbered = {
        kind: {
            int(match[1]): path
            for path in Path(save_dir).glob("checkpoint*.pt")
            if (match := re.fullmatch(pattern, path.name))
            and (upper_bound is None or int(match[1]) <= upper_bound)
        }
        for kind, pattern in _NUMBERED.items()
    }
    found = numbered.pop(by)
    if len(found) < count:
        ((other, others),) = numbered.items()
        bound = "" if upper_bound is None else f" up to {upper_bound}"
        hint = f" (there are {len(others)} by {other})" if others else ""
        raise UserError(
            f"{save_dir} has {len(found)} {by} checkpoints{bound}, fewer than the {count} to "
            f"average: average fewer or train longer{hint}"
        )
    return [found[number] for number in sorted(found, reverse=True)[:count]]


def _owners(weights: Dict[str, Tensor]) -> Dict[str, str]:
    """For each name the first one of the same matrix: shared embeddings have three names."""
    first: dict = {}
    return {
        name: first.setdefault((value.data_ptr(), value.shape, value.stride()), name)
        for name, value in weights.items()
    }


def _groups(weights: Dict[str, Tensor], names: List[str]) -> List[List[str]]:
    """The names in groups whose sums take some :data:`_SUMS` bytes."""
    groups: List[List[str]] = []
    left = 0
    for name in names:
        if not groups or left <= 0:
            groups.append([])
            left = _SUMS
        groups[-1].append(name)
        left -= 8 * weights[name].numel()
    return groups


def average_checkpoints(paths: List[Path], output: Path) -> None:
    """Write a checkpoint whose weights are the mean of those of *paths*.

    Sums are kept in float64, for a group of parameters at a time, and of each file no more is read
    than that group: memory is that of the result and of two groups, however many files there are.
    Weights of 16 bits become float32, or their mean would be rounded to 16 bits; matrices that are
    shared stay so. The rest of the file is the first one's, without the optimizer's state, which
    means nothing for a mean.

    Raises:
        UserError: if the checkpoints have different parameters, or what
            :func:`load_checkpoint` and :func:`save_checkpoint` raise.
    """
    result = load_checkpoint(paths[0], mapped=True)
    result.pop("last_optimizer_state", None)
    first = result.pop("model")
    owners = _owners(first)
    shapes = {name: value.shape for name, value in first.items()}
    summed = [name for name in dict.fromkeys(owners.values()) if first[name].is_floating_point()]
    # the others count something, such as a version
    means = {name: first[name] for name in owners.values() if name not in summed}
    checked = {paths[0]}
    for group in _groups(first, summed):
        sums = {name: torch.zeros(shapes[name], dtype=torch.float64) for name in group}
        for path in paths:
            weights = load_checkpoint(path, mapped=True, checked=path not in checked)["model"]
            checked.add(path)
            if _owners(weights) != owners or any(
                value.shape != shapes[name] for name, value in weights.items()
            ):
                raise UserError(
                    f"{path} and {paths[0]} have different parameters: average one run's"
                )
            for name, total in sums.items():
                total += weights[name]
            del weights
        for name in group:
            dtype = torch.promote_types(first[name].dtype, torch.float32)
            means[name] = (sums.pop(name) / len(paths)).to(dtype)
    result["model"] = {name: means[owner] for name, owner in owners.items()}
    save_checkpoint(result, output)
