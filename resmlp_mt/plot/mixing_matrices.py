"""The mixing matrices A in a checkpoint, trained or as the training began."""

from pathlib import Path
from typing import Dict, Tuple

from fairseq import tasks
from fairseq.utils import set_torch_seed
from omegaconf import OmegaConf
from torch import Tensor

from resmlp_mt.checkpoints import check_fits, read_checkpoint, rebuild
from resmlp_mt.errors import UserError

SIDES = ("encoder", "decoder")
Layer = Tuple[str, int]  # "encoder" or "decoder", and the number of the layer from 0


def mixing_matrices(path: Path, length: int, before_training: bool = False) -> Dict[Layer, Tensor]:
    """H x T x T by layer, encoder first, for sentences of *length* tokens (at most N).

    With *before_training* the weights are drawn again from the seed in the checkpoint.
    """
    state = read_checkpoint(path)
    if "cfg" not in state or not any(".feed_forward.fc1." in name for name in state["model"]):
        raise UserError(
            f"{path} is a checkpoint of another model: give one of a resmlp_mt architecture"
        )
    check_fits(state, path)
    model = untrained(state) if before_training else rebuild(state)
    matrices = {}
    for side in SIDES:
        for number, layer in enumerate(getattr(model, side).layers):
            mixing = getattr(layer.token_mixing, "mixing", None)
            mixing = getattr(mixing, "toeplitz", mixing)  # under a gate
            if not hasattr(mixing, "matrix"):
                raise UserError(f"{path}: its token mixing has no matrix over positions to draw")
            matrices[side, number] = mixing.matrix(min(length, mixing.positions)).detach()
    return matrices


def untrained(state: dict):
    """The model as its training began, in the order in which fairseq-train draws the weights."""
    cfg = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
    set_torch_seed(cfg.common.seed)
    return tasks.setup_task(cfg.task).build_model(cfg.model)
