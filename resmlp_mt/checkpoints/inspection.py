"""Look into a checkpoint of ours: options, mixing matrices, and the weights that the paper calls
A (over positions), B and C (over channels, fc1 and fc2)."""

import re
from pathlib import Path
from typing import Dict, Tuple

import torch
from fairseq import tasks
from fairseq.utils import set_torch_seed
from omegaconf import OmegaConf
from torch import Tensor, nn

from resmlp_mt.checkpoints.loading import load_checkpoint
from resmlp_mt.checkpoints.rebuilding import check_fits, model_options
from resmlp_mt.errors import UserError
from resmlp_mt.model.convolutional_mixing import DepthwiseConvTokenMixing
from resmlp_mt.model.token_mixing import MATRICES

SIDES = ("encoder", "decoder")
# the name of the parameter below encoder.layers.N or decoder.layers.N
PARAMETERS = {
    "A": r"token_mixing\.mixing\.(?:toeplitz\.)?weight",
    "B": r"feed_forward\.fc1\.weight",
    "C": r"feed_forward\.fc2\.weight",
}
# every --token-mixing that is one matrix over positions for each group of channels
HAVE_MATRICES = (*MATRICES, "gated", "depthwise-conv")

Layer = Tuple[str, int]  # "encoder" or "decoder", and the number of the layer from 0


def option(state: dict, name: str, default):
    """An option of the model in a checkpoint."""
    value = model_options(state).get(name)
    return default if value is None else value


def mixing_kind(state: dict) -> str:
    return str(option(state, "token_mixing", "linear"))


def positions(state: dict, side: str) -> int:
    """N, the longest sentence of a side."""
    limit = {"encoder": "max_source_positions", "decoder": "max_target_positions"}[side]
    return int(option(state, limit, 1024))


def load_ours(path: Path) -> dict:
    """A checkpoint of a ``resmlp_mt`` architecture.

    Raises:
        UserError: if it is another model's, or what
            :func:`~resmlp_mt.checkpoints.loading.load_checkpoint` and
            :func:`~resmlp_mt.checkpoints.rebuilding.check_fits` raise.
    """
    state = load_checkpoint(path)
    if "cfg" not in state or not parameter_names(state, "B"):
        raise UserError(
            f"{path} is a checkpoint of another model: give one of a resmlp_mt architecture"
        )
    check_fits(state, path)
    return state


def check_not_folded(state: dict, path: Path) -> None:
    """
    Raises:
        UserError: for a folded checkpoint, whose B and C are no longer those that were trained.
    """
    if option(state, "folded", False):
        raise UserError(
            f"{path} is folded, its affine maps are in its weights: give the checkpoint it was "
            "made from"
        )


def parameter_names(state: dict, kind: str) -> Dict[Layer, str]:
    """Names of the parameters called *kind* (``A``, ``B``, ``C``), encoder first, by depth.

    A ``--token-mixing`` without matrices has no ``A``.
    """
    if kind == "A" and mixing_kind(state) not in HAVE_MATRICES:
        return {}
    pattern = re.compile(rf"(encoder|decoder)\.layers\.(\d+)\.{PARAMETERS[kind]}")
    found = {
        (match[1], int(match[2])): name
        for name in state["model"]
        if (match := pattern.fullmatch(name))
    }
    return dict(sorted(found.items(), key=lambda item: (SIDES.index(item[0][0]), item[0][1])))


def check_matrices(state: dict, path: Path) -> None:
    """
    Raises:
        UserError: if the ``--token-mixing`` of the checkpoint is not by matrices over positions.
    """
    if mixing_kind(state) not in HAVE_MATRICES:
        raise UserError(
            f"{path} was trained with --token-mixing {mixing_kind(state)}: only "
            f"{', '.join(HAVE_MATRICES[:-1])} and {HAVE_MATRICES[-1]} have mixing matrices"
        )


def rebuild_mixing(state: dict, side: str, weight: Tensor) -> nn.Module:
    """The token mixing of a layer, with *weight* in it and no bias."""
    kind, groups = mixing_kind(state), weight.size(0)
    common = (groups, positions(state, side), side == "decoder")
    if kind == "depthwise-conv":
        mixing = DepthwiseConvTokenMixing(*common, kernel_size=weight.size(1), bias=False)
    else:
        matrices = MATRICES["toeplitz" if kind == "gated" else kind]
        mixing = matrices(*common, heads=groups, bias=False)
    with torch.no_grad():
        mixing.weight.copy_(weight)
    return mixing


def untrained(state: dict) -> dict:
    """The weights that training began from, made again from the seed in the checkpoint."""
    cfg = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
    # the order in which fairseq-train does it
    set_torch_seed(cfg.common.seed)
    return tasks.setup_task(cfg.task).build_model(cfg.model).state_dict()


def mixing_matrices(path: Path, length: int, before_training: bool = False) -> Dict[Layer, Tensor]:
    """The mixing matrices in a checkpoint, as they are used for sentences of *length* tokens.

    Args:
        length: T, cut to the number of positions of the model.
        before_training: those that training began from, in place of the trained ones.

    Returns:
        H x T x T by (``"encoder"`` or ``"decoder"``, layer).

    Raises:
        UserError: what :func:`load_ours` and :func:`check_matrices` raise.
    """
    state = load_ours(path)
    check_matrices(state, path)
    return matrices_of({**state, "model": untrained(state)} if before_training else state, length)


def matrices_of(state: dict, length: int) -> Dict[Layer, Tensor]:
    """:func:`mixing_matrices` of a checkpoint that is loaded and has them."""
    matrices = {}
    for (side, layer), name in parameter_names(state, "A").items():
        mixing = rebuild_mixing(state, side, state["model"][name])
        matrices[side, layer] = mixing.matrix(min(length, mixing.positions)).detach()
    return matrices
