"""The mixing matrices A of a checkpoint as heat maps, by depth, as in Figure 2 of the paper.

Pictures have their printed width, a column of 8 cm or a page of 17, and fonts of 6 points or more.
"""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from resmlp_mt.checkpoints.checking import not_larger_than
from resmlp_mt.checkpoints.files import options_of, read_checkpoint
from resmlp_mt.fairseq_fixes.messages import naming
from resmlp_mt.model.config import ResMLPConfig, check_config, set_defaults
from resmlp_mt.model.layers import build_token_mixing_branch
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import whole_file

CM = 1 / 2.54  # inches
COLUMN, PAGE = 8 * CM, 17 * CM
UNUSED = "#E4E4E4"  # the upper triangle of a causal matrix
# a decorator, without what a matplotlibrc of the user's or of the working directory says
in_style = style.context(Path(__file__).with_suffix(".mplstyle"), after_reset=True)


def mixing_matrices(path: Path, length: int) -> dict[str, list[Tensor]]:
    """A by side and layer, H x T x T; T: *length* or, if the model has fewer, its positions."""
    state = read_checkpoint(path)
    weights = state["model"]
    if "cfg" not in state or not any(".feed_forward.fc1." in name for name in weights):
        raise UserError(f"{path} is a checkpoint of another model: give one of resmlp_mt")
    with naming(path, "does not fit its own options"):
        options = Namespace(**options_of(state, "model"))
        set_defaults(options)
        cfg = ResMLPConfig.from_namespace(options)
        check_config(cfg)
        layers = {side: range(getattr(cfg, side).layers) for side in ("encoder", "decoder")}
        if not all(layers.values()):
            raise UserError(f"{path} lacks encoder or decoder layers: there is no matrix to draw")
        matrix = partial(_matrix, cfg, weights, length)
        return {side: [matrix(side, n) for n in numbers] for side, numbers in layers.items()}


def _matrix(cfg, weights: dict[str, Tensor], length: int, side: str, number: int) -> Tensor:
    """A of a layer, rebuilt from its *weights*."""
    causal = side == "decoder"
    positions = cfg.max_target_positions if causal else cfg.max_source_positions
    with not_larger_than(weights):
        branch = build_token_mixing_branch(cfg, getattr(cfg, side).embed_dim, positions, causal)
    mixing: Any = getattr(branch, "mixing", None)
    mixing = getattr(mixing, "toeplitz", mixing)  # under a gate
    if branch is None or not callable(getattr(mixing, "matrix", None)):
        raise UserError("its token mixing has no matrix over positions to draw")
    prefix = f"{side}.layers.{number}.token_mixing."
    own = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
    branch.load_state_dict(own, assign=True)
    return mixing.eval().float().matrix(min(length, positions)).detach()


@in_style
def draw_matrices(
    matrices: dict[str, list[Tensor]], heads: int, title: str, headings: Sequence[str] = ()
) -> Figure:
    """Heat maps of the first *heads* of each side's matrices, under *headings* (default: layers):
    positive red, zero white, negative blue, each divided by its largest weight."""
    rows = [(side, head) for side in matrices for head in range(heads)]
    columns = max(map(len, matrices.values()))
    headings = headings or [f"layer {number}" for number in range(1, columns + 1)]
    width = PAGE if columns > 6 else COLUMN
    height = len(rows) * (width - 1.2 * CM) / columns + 3 * CM
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for (side, head), panels in zip(rows, grid):
        for layer, axes in enumerate(panels):
            axes.set_visible(layer < len(matrices[side]))
            if axes.get_visible():
                image = _show(axes, matrices[side][layer][head].numpy(), side == "decoder")
                axes.tick_params(labelleft=not layer, labelbottom=head == heads - 1)
                axes.set_title("" if head else headings[layer])
        number = "" if heads == 1 else f", head {head + 1}"
        panels[0].set_ylabel(f"{side}{number}\nto t")
    for axes in grid[-1]:
        axes.set_xlabel("from s")
    figure.suptitle(title)
    place: dict = {"location": "bottom", "aspect": 40, "shrink": 0.7, "pad": 0.02}
    scale = figure.colorbar(image, ax=grid, ticks=[-1, -0.5, 0, 0.5, 1], **place)
    scale.set_label("weight A[t, s], divided by the largest of its matrix")
    return figure


def _show(axes: Axes, matrix: np.ndarray, causal: bool):
    shown = matrix / (np.abs(matrix).max() or 1.0)
    if causal:
        shown = np.ma.masked_array(shown, np.triu(np.ones_like(shown, dtype=bool), 1))
    axes.set_facecolor(UNUSED)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(2, integer=True))
    return axes.imshow(shown, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="auto")


@in_style
def save(figure: Figure, path: Path) -> None:
    """Write a figure atomically, in the format of the suffix."""
    metadata = {"Date": None} if path.suffix == ".svg" else None
    with whole_file(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=300, metadata=metadata)
