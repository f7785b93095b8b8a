"""Which checkpoints are the last, and their mean."""

import re
from pathlib import Path

import torch
from torch import Tensor

from resmlp_mt.checkpoints.files import languages_of, read_checkpoint, write_checkpoint
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import check_output

# one per epoch, and one per --save-interval-updates
_NUMBERED = {"epoch": r"checkpoint\d+\.pt", "update": r"checkpoint_\d+_\d+\.pt"}
TIED = ("embed_tokens.weight", "output_projection.weight")


def last_checkpoints(save_dir: Path, count: int, by: str) -> list[Path]:
    """The *count* newest checkpoints by "epoch" or "update", newest first, or all if there are
    fewer. A training that ends within an epoch leaves no numbered checkpoint, so
    ``checkpoint_last.pt`` counts if it is newer. Raises a UserError if there is none at all."""
    found = [path for path in Path(save_dir).iterdir() if re.fullmatch(_NUMBERED[by], path.name)]
    found.sort(key=lambda path: int(re.findall(r"\d+", path.name)[-1]), reverse=True)
    last = Path(save_dir) / "checkpoint_last.pt"
    if last.is_file() and (not found or _updates(last) > _updates(found[0])):
        found = [last, *found]
    if not found:
        raise UserError(f"{save_dir} has no {by} checkpoints and no {last.name}: train first")
    return found[:count]


def _updates(path: Path) -> int:
    try:
        return int(read_checkpoint(path, mapped=True)["optimizer_history"][-1]["num_updates"])
    except (LookupError, TypeError, ValueError):
        raise UserError(f"{path} has no number of updates: name the checkpoints") from None


def _owners(weights: dict[str, Tensor]) -> dict[str, str]:
    """By name, the first name of the same matrix: tied embeddings have up to three, and after a
    training on a GPU fairseq stores equal copies of them."""
    owners: dict[str, str] = {}
    tied: list[str] = []
    for name, weight in weights.items():
        owners[name] = name
        if name.endswith(TIED):
            owners[name] = next((one for one in tied if torch.equal(weights[one], weight)), name)
            tied.append(name)
    return owners


def average_checkpoints(paths: list[Path], output: Path, float16: bool = False) -> None:
    """Write the mean weights of *paths*, in float32 or wider unless *float16* is set, and the rest
    of the first but its optimizer. Files are mapped: only sums, in float64, take memory. Refuses
    checkpoints with other languages or parameters than the first."""
    check_output(output, *paths)
    result = read_checkpoint(paths[0], mapped=True)
    result.pop("last_optimizer_state", None)
    first, languages = result["model"], languages_of(result)
    owners = _owners(first)
    means = {
        name: first[name].double()
        for name in dict.fromkeys(owners.values())
        if first[name].is_floating_point()  # others count something, such as a version
    }
    wrong, remedy = f"and {paths[0]} have different", "average checkpoints of one run"
    for path in paths[1:]:
        state = read_checkpoint(path, mapped=True)
        weights = state["model"]
        if languages_of(state) != languages:
            raise UserError(f"{path} {wrong} languages: {remedy}")
        same_names = _owners(weights) == owners
        if not same_names or any(weights[name].shape != means[name].shape for name in means):
            raise UserError(f"{path} {wrong} parameters: {remedy}")
        for name, mean in means.items():
            mean += weights[name]
    for name, mean in means.items():
        dtype = torch.promote_types(first[name].dtype, torch.float32)
        means[name] = (mean / len(paths)).to(torch.float16 if float16 else dtype)
        if not torch.isfinite(means[name]).all():
            raise UserError(f"{name} has values out of the range of float16: leave out --float16")
    result["model"] = {name: means.get(owner, first[owner]) for name, owner in owners.items()}
    write_checkpoint(result, output)
