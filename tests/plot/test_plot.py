"""Pictures of matrices: what is in them."""

import sys

import matplotlib
import numpy as np
import pytest
import reference_model
import torch
from command import refused, resmlp
from fairseq_programs import process
from helpers import save_model

from resmlp_mt.cli.main import build_parser
from resmlp_mt.cli.plot import figure_of
from resmlp_mt.plot import mixing_matrices


def drawn(*words):
    words = [*map(str, words), "-o", "no.png"]
    return figure_of(build_parser("plot").parse_args(words))


def images(figure):
    """The array of each heat map, from the first panel to the last."""
    return [axes.images[0].get_array() for axes in figure.axes if axes.images]


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "resmlp_mt.plot")
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # importing it fails
    refused("pip install matplotlib", *["plot", "a.pt", "-o", "a.png"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("first", ["resmlp_mt.plot", "resmlp_mt.model.mixing"])
def test_importing_it_first_leaves_logging_as_it_was(first):
    code = f"import {first}, logging; print(logging.getLogger().level)"
    assert process("-c", code).stdout == "30\n"


@pytest.mark.parametrize("kind", ["linear", "gated"])
def test_heat_maps_are_the_matrices(tmp_path, kind):
    path = save_model(tmp_path / "a.pt", encoder_layers=3, token_mixing=kind)
    matrices = mixing_matrices(path, 10)
    figure = drawn(path, "--length", 10)
    layers = [(side, matrix) for side, found in matrices.items() for matrix in found]
    for (side, matrix), image in zip(layers, images(figure), strict=True):
        values = matrix[0].numpy()
        np.testing.assert_allclose(image.filled(0), values / np.abs(values).max(), atol=1e-6)
        future = np.triu(np.ones((10, 10), dtype=bool), 1)
        hidden = np.ma.getmaskarray(image)
        assert (hidden == (future if side == "decoder" else False)).all()
    titles = [axes.get_title() for axes in figure.axes if axes.images]
    assert titles == ["layer 1", "layer 2", "layer 3", "layer 1", "layer 2"]
    name = "toeplitz.weight" if kind == "gated" else "weight"
    for side, found in matrices.items():
        weight = torch.load(path)["model"][f"{side}.layers.0.token_mixing.mixing.{name}"]
        heads = [reference_model.matrix(head, 10, side == "decoder") for head in weight]
        assert torch.equal(found[0], torch.stack(heads))


def test_heads_are_rows_of_panels(tmp_path):
    path = save_model(tmp_path / "a.pt", token_mixing="toeplitz", token_mixing_heads=8)
    matrices = mixing_matrices(path, 10)
    figure = drawn(path, "--heads", 3, "--length", 10)
    labels = [axes.get_ylabel().split("\n")[0] for axes in figure.axes[:12:2]]
    assert labels == [f"{side}, head {n}" for side in ("encoder", "decoder") for n in (1, 2, 3)]
    for row, side in ((1, "encoder"), (5, "decoder")):  # the second layer of heads 2 and 3
        values = matrices[side][1][row % 3].numpy()
        image = images(figure)[2 * row + 1].filled(0)
        np.testing.assert_allclose(image, values / np.abs(values).max(), atol=1e-6)
    for words, heads, positions in (((), 2, 16), (("--heads", 9, "--length", 10), 8, 10)):
        figure = drawn(path, *words)
        assert len(images(figure)) == heads * 4
        assert images(figure)[0].shape == (positions, positions)
        shown = "" if heads == 8 else f", {heads} of 8 heads"
        assert figure.get_suptitle() == f"Mixing matrices A by depth{shown}"


def test_files(tmp_path):
    save_model(tmp_path / "model.pt")
    assert len(images(drawn(tmp_path))) == 4
    png, svg = tmp_path / "a.png", tmp_path / "a.svg"
    written: list = []  # whatever a matplotlibrc, perhaps in the working directory, says
    for output in (png, svg) * 2:  # the same picture is the same file
        with matplotlib.rc_context({"text.usetex": bool(written), "font.size": 4}):
            assert resmlp("plot", tmp_path, "-o", output) == (0, f"{output}\n", "")
        written.append(output.read_bytes())
    assert written[:2] == written[2:]
    assert written[0].startswith(b"\x89PNG") and b"<svg" in written[1]
    width = int.from_bytes(png.read_bytes()[16:20], "big")
    assert abs(width - 300 * 8 / 2.54) < 2  # 8 cm, by 300 dots an inch
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.png", "a.svg", "model.pt"]
