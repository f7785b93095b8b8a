"""The mixing matrices A of a checkpoint as heat maps, by depth, as Figure 2 of the paper.

Pictures have their printed width, a column of 8 cm or a page of 17, and fonts of 6 points or more.
"""

import textwrap
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data import Dictionary
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from resmlp_mt.checkpoints.checking import not_larger_than
from resmlp_mt.checkpoints.files import options_of, read_checkpoint
from resmlp_mt.fairseq_fixes.messages import naming
from resmlp_mt.model.model import ResMLPModel
from resmlp_mt.plugin import check_registered
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import whole_file

SIDES = ("encoder", "decoder")
Layer = tuple[str, int]  # (side, index)
CM = 1 / 2.54  # inches
COLUMN, PAGE = 8 * CM, 17 * CM
UNUSED = "#E4E4E4"  # the upper triangle of a causal matrix
# a decorator, without what a matplotlibrc of the user's or of the working directory says
in_style = style.context(Path(__file__).with_suffix(".mplstyle"), after_reset=True)


def mixing_matrices(path: Path, length: int) -> dict[Layer, Tensor]:
    """H x T x T per layer, encoder first; T: *length*, at most the positions of the model."""
    state = read_checkpoint(path)
    if "cfg" not in state or not any(".feed_forward.fc1." in name for name in state["model"]):
        raise UserError(
            f"{path} is a checkpoint of another model: give one of a resmlp_mt architecture"
        )
    check_registered(state, path)
    model, matrices = rebuild(state, path), {}
    for side in SIDES:
        for index, layer in enumerate(getattr(model, side).layers):
            mixing = getattr(layer.token_mixing, "mixing", None)
            mixing = getattr(mixing, "toeplitz", mixing)  # under a gate
            if mixing is None or not hasattr(mixing, "matrix"):
                raise UserError(f"{path}: its token mixing has no matrix over positions to draw")
            matrices[side, index] = mixing.matrix(min(length, mixing.positions)).detach()
    return matrices


def rebuild(state: dict, path: Path) -> ResMLPModel:
    """The model of a checkpoint, *state* of *path*, without its dictionaries: to look at weights.
    Tensors that no checkpoint stores, such as sinusoidal positions, stay on the meta device."""
    weights = dict(state["model"])
    with (
        naming(path, "does not fit its own options"),
        torch.device("meta"),
        not_larger_than(weights),
    ):
        source, target = Dictionary(), Dictionary()
        source.pad_to_multiple_(len(weights["encoder.embed_tokens.weight"]))
        target.pad_to_multiple_(len(weights["decoder.embed_tokens.weight"]))
        task = SimpleNamespace(source_dictionary=source, target_dictionary=target)
        model = ResMLPModel.build_model(Namespace(**options_of(state, "model")), task)
        model.upgrade_state_dict(weights)
        # assign: no second copy in memory; fairseq's own method does not have it
        torch.nn.Module.load_state_dict(model, weights, assign=True)
    return model.float()


class Panel(NamedTuple):
    """A matrix, T x T; *causal* hides its upper triangle; *row* labels the first panel of a row."""

    matrix: np.ndarray
    causal: bool
    heading: str = ""
    row: str = ""


def arrange(matrices: dict[Layer, Tensor], heads: Sequence[int]) -> list[list[Panel]]:
    """Rows of panels, one per head of *heads* (from 1), with depth from left to right.

    The decoder stands beside the encoder if there are several heads and few layers, else below.
    """
    blocks = [[layer for layer in matrices if layer[0] == side] for side in SIDES]
    if len(heads) > 1 and len(matrices) <= 6:
        blocks = [sum(blocks, [])]
    rows = []
    for block in blocks:
        for head in heads:
            row: list[Panel] = []
            for side, layer in block:
                heading, label = f"layer {layer + 1}", side
                if len(heads) > 1:
                    heading = f"{side}\n{heading}" if head == heads[0] else ""
                    label = f"head {head}"
                matrix = matrices[side, layer][head - 1].numpy()
                row.append(Panel(matrix, side == "decoder", heading, "" if row else label))
            rows.append(row)
    return rows


@in_style
def draw_matrices(rows: list[list[Panel]], title: str | None = None) -> Figure:
    """Heat maps: positive red, zero white, negative blue, each divided by its largest weight."""
    columns = max(map(len, rows))
    width = PAGE if columns > 6 else COLUMN
    headings = sum(len(row[0].heading.splitlines()) for row in rows)
    side = (width - 1.0 * CM) / columns
    figure = new_figure(width, len(rows) * side + (headings * 0.28 + 1.8) * CM, title)
    figure.get_layout_engine().set(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.01)  # type: ignore
    grid = figure.subplots(len(rows), columns, squeeze=False)
    axes: Axes
    for axes in grid.flat:
        axes.set_visible(False)
    for row, below, grid_row in zip(rows, [*rows[1:], []], grid):
        for column, (panel, axes) in enumerate(zip(row, grid_row)):
            axes.set_visible(True)
            image = _show(axes, panel)
            axes.tick_params(labelleft=not column, labelbottom=column >= len(below))
            if not column:
                axes.set_ylabel(f"{panel.row}\nto t".strip())
            if column >= len(below):
                axes.set_xlabel("from s")
    options: dict[str, Any] = {"location": "bottom", "aspect": 40, "shrink": 0.8, "pad": 0.02}
    scale = figure.colorbar(image, ax=grid, ticks=[-1, -0.5, 0, 0.5, 1], **options)
    scale.set_label("weight A[t, s], divided by the largest of its matrix")
    scale.outline.set_linewidth(0.5)
    return figure


def _show(axes: Axes, panel: Panel):
    shown = panel.matrix / (np.abs(panel.matrix).max() or 1.0)
    if panel.causal:
        shown = np.ma.masked_array(shown, np.triu(np.ones_like(shown, dtype=bool), 1))
    axes.set_facecolor(UNUSED)
    image = axes.imshow(shown, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="none")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(2, integer=True))
    if panel.heading:
        axes.set_title(panel.heading)
    return image


def new_figure(width: float, height: float, title: str | None = None) -> Figure:
    """An empty figure, sizes in inches, which a *title* makes higher."""
    title_height = 0.5 * CM if title else 0
    figure = Figure(figsize=(width, height + title_height), layout="constrained")
    if title:
        figure.suptitle(textwrap.fill(title, int(width / COLUMN * 50)))
    return figure


@in_style
def save(figure: Figure, path: Path) -> None:
    """Write a figure atomically, in the format of the suffix."""
    metadata = {"Date": None} if path.suffix == ".svg" else None
    with whole_file(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], dpi=300, metadata=metadata)
