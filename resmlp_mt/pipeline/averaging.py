"""Average the weights of several checkpoints of one run."""

import os
import pickle
import re
from pathlib import Path
from typing import List

import torch

from resmlp_mt.errors import UserError


def load_checkpoint(path: Path) -> dict:
    """A fairseq checkpoint by PyTorch's weights-only loader, on the CPU.

    Raises:
        UserError: missing, damaged, holding anything but data, or not a fairseq checkpoint.
    """
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: give a checkpoint that is there") from None
    except pickle.UnpicklingError:
        raise UserError(
            f"{path} is no checkpoint, or one that carries more than data (such as code): refused"
        ) from None
    except Exception:  # what a damaged file makes of the loader is beyond listing
        raise UserError(f"{path} is damaged or cut off: copy or make it again") from None
    if not isinstance(state, dict) or "model" not in state:
        raise UserError(f"{path} is not a fairseq checkpoint: it has no model in it")
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
    partial = Path(f"{output}.partial")
    try:
        torch.save(state, partial)
        os.replace(partial, output)
    except (OSError, RuntimeError) as error:  # PyTorch's writer raises the second on a full disk
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        partial.unlink(missing_ok=True)
        raise UserError(
            f"{output} could not be written ({reason}): choose a folder with room that can be"
        ) from None


def last_checkpoints(save_dir: Path, count: int) -> List[Path]:
    """The *count* newest ``checkpointN.pt`` (one an epoch) in *save_dir*, newest first.

    Raises:
        UserError: if there are fewer.
    """
    epochs = {
        int(match[1]): path
        for path in Path(save_dir).glob("checkpoint*.pt")
        if (match := re.fullmatch(r"checkpoint(\d+)\.pt", path.name))
    }
    if len(epochs) < count:
        raise UserError(
            f"{save_dir} has {len(epochs)} epoch checkpoints, fewer than the {count} to average: "
            "average fewer or train longer"
        )
    return [epochs[epoch] for epoch in sorted(epochs, reverse=True)[:count]]


def average_checkpoints(paths: List[Path], output: Path) -> None:
    """Write a checkpoint whose weights are the mean of those of *paths*.

    One checkpoint is read at a time. The rest of the file is the first one's, without the
    optimizer's state, which means nothing for a mean.

    Raises:
        UserError: if the checkpoints have different parameters, or what
            :func:`load_checkpoint` and :func:`save_checkpoint` raise.
    """
    result = load_checkpoint(paths[0])
    total = {name: value.clone() for name, value in result["model"].items()}
    floats = {name for name, value in total.items() if value.is_floating_point()}
    for name in floats:
        total[name] = total[name].float()
    for path in paths[1:]:
        weights = load_checkpoint(path)["model"]
        if {k: v.shape for k, v in weights.items()} != {k: v.shape for k, v in total.items()}:
            raise UserError(f"{path} and {paths[0]} have different parameters: average one run's")
        for name in floats:
            total[name] += weights[name].float()
        del weights
    for name in floats:
        total[name] = (total[name] / len(paths)).to(result["model"][name].dtype)
    result["model"] = total
    result.pop("last_optimizer_state", None)
    save_checkpoint(result, output)
