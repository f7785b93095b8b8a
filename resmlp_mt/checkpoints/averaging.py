"""Average the weights of several checkpoints of one run."""

from pathlib import Path
from typing import Dict, List, Optional

import torch
from fairseq.checkpoint_utils import checkpoint_paths
from torch import Tensor

from resmlp_mt.checkpoints.loading import load_checkpoint, save_checkpoint
from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes.checkpoint_errors import naming
from resmlp_mt.files import check_output

# the checkpoints of a run: one an epoch, and one every so many updates (--save-interval-updates)
_NUMBERED = {"epoch": r"checkpoint(\d+)\.pt", "update": r"checkpoint_\d+_(\d+)\.pt"}


def numbered(save_dir: Path, by: str) -> Dict[int, Path]:
    """``checkpointN.pt`` (*by* epoch) or ``checkpoint_EPOCH_N.pt`` (*by* update) by N, the newest
    first."""
    if not Path(save_dir).is_dir():
        return {}
    found = checkpoint_paths(str(save_dir), _NUMBERED[by], keep_match=True)
    return {int(number): Path(path) for path, number in found}


def last_checkpoints(
    save_dir: Path, count: int, by: str = "epoch", upper_bound: Optional[int] = None
) -> List[Path]:
    """The *count* newest numbered checkpoints in *save_dir*, newest first.

    Args:
        by: ``"epoch"`` (``checkpointN.pt``) or ``"update"`` (``checkpoint_EPOCH_N.pt``).
        upper_bound: the highest N to take.

    Raises:
        UserError: if there are fewer.
    """
    there = numbered(save_dir, by).items()
    found = [path for number, path in there if upper_bound is None or number <= upper_bound]
    if len(found) < count:
        other = "update" if by == "epoch" else "epoch"
        others = len(numbered(save_dir, other))
        bound = "" if upper_bound is None else f" up to {upper_bound}"
        hint = f" (there are {others} by {other})" if others else ""
        raise UserError(
            f"{save_dir} has {len(found)} {by} checkpoints{bound}, fewer than the {count} to "
            f"average: average fewer or train longer{hint}"
        )
    return found[:count]


def final_checkpoints(save_dir: Path, count: int, by: str) -> List[Path]:
    """What to average at the end of a training, newest first: the *count* newest numbered
    checkpoints, or as many as a short training has left of them. fairseq writes none of these where
    a training ends within an epoch, so ``checkpoint_last.pt`` is one of them where it is newer.

    Raises:
        UserError: if there is no checkpoint.
    """
    found = list(numbered(save_dir, by).values())[:count]
    last = Path(save_dir) / "checkpoint_last.pt"
    if last.is_file() and (not found or _updates(last) > _updates(found[0])):
        found = [last, *found]
    if not found:
        raise UserError(f"{last}: no such file: train first")
    return found[:count]


def _updates(path: Path) -> int:
    state = load_checkpoint(path, mapped=True)
    with naming(path, "does not say how many updates it has", "name the checkpoints to average"):
        return int(state["optimizer_history"][-1]["num_updates"])


def _owners(weights: Dict[str, Tensor]) -> Dict[str, str]:
    """For each name the first one of the same matrix: shared embeddings have three names."""
    first: dict = {}
    return {
        name: first.setdefault((value.data_ptr(), value.shape, value.stride()), name)
        for name, value in weights.items()
    }


def average_checkpoints(paths: List[Path], output: Path, float16: bool = False) -> None:
    """Write a checkpoint whose weights are the mean of those of *paths*.

    Sums are kept in float64, and the tensors of a file are read one after the other: memory is that
    of the sums, however many files there are. Weights of 16 bits become float32, or their mean
    would be rounded to 16 bits. Matrices that are shared stay so. The rest of the file is that of
    the first, without the state of the optimizer, which means nothing for a mean.

    Args:
        float16: write weights of float16, half the size. A model computes in float32 with them.

    Raises:
        UserError: if the checkpoints have different parameters, if a weight overflows float16, if
            *output* is one of *paths*, or what
            :func:`~resmlp_mt.checkpoints.loading.load_checkpoint` and ``save_checkpoint`` raise.
    """
    check_output(output, *paths)
    result = load_checkpoint(paths[0], mapped=True)
    result.pop("last_optimizer_state", None)
    first = result["model"]
    owners = _owners(first)
    # what is not floating-point counts something, such as a version
    means = {
        name: first[name].double() if first[name].is_floating_point() else first[name]
        for name in dict.fromkeys(owners.values())
    }
    for path in paths[1:]:
        weights = load_checkpoint(path, mapped=True)["model"]
        if _owners(weights) != owners or any(
            weights[name].shape != mean.shape for name, mean in means.items()
        ):
            raise UserError(
                f"{path} and {paths[0]} have different parameters: average those of one run"
            )
        for name, mean in means.items():
            if mean.is_floating_point():
                mean += weights[name]
    for name, mean in means.items():
        if mean.is_floating_point():
            dtype = torch.promote_types(first[name].dtype, torch.float32)
            means[name] = (mean / len(paths)).to(torch.float16 if float16 else dtype)
            if means[name].isinf().any():
                raise UserError(f"{paths[0]}: {name} overflows float16: leave out --float16")
    result["model"] = {name: means[owner] for name, owner in owners.items()}
    save_checkpoint(result, output)
