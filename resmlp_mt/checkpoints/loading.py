"""Read and write checkpoints of fairseq: nothing but data, whole or not at all."""

import zipfile
from pathlib import Path

import torch

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes.checkpoint_errors import naming
from resmlp_mt.fairseq_fixes.checkpoint_file import check_finite, check_records, is_strided
from resmlp_mt.files import check_output, whole_file


def load_checkpoint(path: Path, mapped: bool = False) -> dict:
    """A fairseq checkpoint by the weights-only loader of PyTorch, on the CPU.

    Args:
        mapped: leave the tensors in the file until they are used: what is not used (such as the
            state of the optimizer) takes no memory then.

    Raises:
        UserError: missing, damaged, holding anything but data, not a fairseq checkpoint, or with
            weights that are NaN or infinite.
    """
    try:
        with naming(path, "is damaged, or no checkpoint of fairseq", "copy or make it again"):
            check_records(path)
            # files of PyTorch before 1.6 are no zip archives and cannot be mapped
            mapped = mapped and zipfile.is_zipfile(path)
            state = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: give a checkpoint that is there") from None
    if not isinstance(state, dict) or "model" not in state:
        raise UserError(f"{path} is not a fairseq checkpoint: it has no model in it")
    weights = state["model"]
    if not isinstance(weights, dict) or not all(
        isinstance(name, str) and is_strided(weight) for name, weight in weights.items()
    ):
        raise UserError(f"{path} is not a fairseq checkpoint: its model is more than tensors")
    check_finite(weights, path)
    return state


def save_checkpoint(state: dict, output: Path) -> None:
    """Write a checkpoint, whole or not at all.

    Raises:
        UserError: if it cannot be written.
    """
    output = Path(output)
    check_output(output)
    try:
        with whole_file(output) as temporary:
            torch.save(state, temporary)
    except (OSError, RuntimeError) as error:  # the second on a full disk
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UserError(
            f"{output} could not be written ({reason}): choose another folder, with room"
        ) from None
