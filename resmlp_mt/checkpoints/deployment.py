"""A checkpoint for those who only translate: affine maps folded, optimizer's state left out."""

from pathlib import Path

from resmlp_mt.checkpoints.averaging import load_checkpoint, save_checkpoint
from resmlp_mt.checkpoints.inspection import option
from resmlp_mt.checkpoints.rebuilding import check_fits, rebuild
from resmlp_mt.errors import UserError
from resmlp_mt.inference.folding import fold_


def fold_checkpoint(path: Path, output: Path) -> int:
    """Write a checkpoint with the affine maps folded; fairseq's programs load it as any other.

    Returns:
        the number of affine maps that are left (adaptive softmax keeps one, for example).

    Raises:
        UserError: if *path* is not a checkpoint of ours, or folded already, or what
            :func:`~resmlp_mt.checkpoints.averaging.load_checkpoint` and ``save_checkpoint`` raise.
    """
    state = load_checkpoint(path)
    if not any(".feed_forward.fc1." in name for name in state["model"]):
        raise UserError(
            f"{path} is not a checkpoint of a resmlp_mt model: there is nothing to fold"
        )
    check_fits(state, path)
    if option(state, "folded", False):
        raise UserError(f"{path} is folded already")
    model = rebuild(state)
    fold_(model)
    options = state["cfg"]["model"]
    if isinstance(options, dict):
        options["folded"] = True
    else:
        options.folded = True
    state["model"] = model.state_dict()
    state.pop("last_optimizer_state", None)
    save_checkpoint(state, output)
    return sum(name.endswith("alpha") for name in state["model"])
