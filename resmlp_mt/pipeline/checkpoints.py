"""Look into a checkpoint: the mixing matrices of a model of ours."""

import re
from pathlib import Path
from typing import Dict, List, Tuple

import torch
from fairseq import tasks
from fairseq.utils import set_torch_seed
from omegaconf import OmegaConf
from torch import Tensor

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.averaging import load_checkpoint
from resmlp_mt.token_mixing import MATRICES

_NAME = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.token_mixing\.mixing\.weight")


def option(state: dict, name: str, default):
    """An option of the model in a checkpoint, whether it was trained by command line or hydra."""
    model = state["cfg"]["model"]
    values = model if isinstance(model, dict) else vars(model)
    value = values.get(name)
    return default if value is None else value


def untrained(state: dict) -> dict:
    """The weights that training began from: the model built again from the checkpoint's seed."""
    cfg = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
    # the order in which fairseq-train does it
    set_torch_seed(cfg.common.seed)
    return tasks.setup_task(cfg.task).build_model(cfg.model).state_dict()


def mixing_matrices(
    path: Path, length: int, before_training: bool = False
) -> Dict[Tuple[str, int], Tensor]:
    """The mixing matrices in a checkpoint, as they are used for sentences of *length* tokens.

    Args:
        path: a checkpoint of a ``resmlp_mt`` architecture.
        length: T; cut to the model's number of positions.
        before_training: those that training began from, in place of the trained ones.

    Returns:
        H x T x T by (``"encoder"`` or ``"decoder"``, layer).

    Raises:
        UserError: if it is a checkpoint of another model, or unreadable.
    """
    state = load_checkpoint(path)
    kind = str(option(state, "token_mixing", "linear"))
    if kind not in MATRICES:
        raise UserError(
            f"{path} was trained with --token-mixing {kind}: only {' and '.join(MATRICES)} have "
            "mixing matrices"
        )
    weights = untrained(state) if before_training else state["model"]
    matrices = {}
    for name, weight in weights.items():
        match = _NAME.fullmatch(name)
        if match is None:
            continue
        side, layer = match[1], int(match[2])
        limit = {"encoder": "max_source_positions", "decoder": "max_target_positions"}[side]
        positions = int(option(state, limit, 1024))
        with torch.no_grad():
            mixing = MATRICES[kind](
                weight.size(0), positions, causal=side == "decoder", heads=weight.size(0)
            )
            mixing.weight.copy_(weight)
            matrices[side, layer] = mixing.matrix(min(length, positions)).detach().float()
    if not matrices:
        raise UserError(f"{path} has no mixing matrices: give a checkpoint of a resmlp_mt model")
    return matrices


def layers_of(matrices: Dict[Tuple[str, int], Tensor], side: str) -> List[int]:
    """Layer numbers of one side, in order."""
    return sorted(layer for where, layer in matrices if where == side)
