"""Pictures of a checkpoint: what is in them, that they are legible, and what is refused."""

import numpy as np
import pytest
import torch
from command import refused, resmlp
from picture_inputs import COLUMN, assert_legible, drawn, labelled, save_model

from resmlp_mt.checkpoints.folding import fold_checkpoint
from resmlp_mt.checkpoints.inspection import mixing_matrices
from resmlp_mt.plot.matrices import arrange, draw_matrices
from resmlp_mt.plot.pruning import sparsity
from resmlp_mt.plot.style import PAGE

SIX, MANY = {"encoder_layers": 6, "decoder_layers": 6}, {"encoder_layers": 12, "decoder_layers": 12}
HEADS = {"token_mixing": "toeplitz", "token_mixing_heads": 8}


def images(figure):
    """The array of each heat map, from the first panel to the last."""
    return [axes.images[0].get_array() for axes in figure.axes if axes.images]


@pytest.mark.parametrize("options", [{"encoder_layers": 1}, MANY, HEADS], ids=["1", "12", "heads"])
def test_legible(tmp_path, options):
    path = save_model(tmp_path / "a.pt", **options)
    words = ["--length", 20, "--title", "A heading that is wider than the " * 3]
    for kind in ("matrices", "rows", "sparsity"):
        figure = drawn(kind, path, *words)
        assert_legible(figure, figure.get_figwidth())
        assert figure.get_figwidth() in (pytest.approx(COLUMN), pytest.approx(PAGE))


def test_heat_maps_are_the_matrices(tmp_path):
    path = save_model(tmp_path / "a.pt", encoder_layers=3)
    matrices = mixing_matrices(path, 10)
    figure = drawn("matrices", path, "--length", 10)
    shown = images(figure)
    layers = [("encoder", 0), ("encoder", 1), ("encoder", 2), ("decoder", 0), ("decoder", 1)]
    assert len(shown) == len(layers)
    for key, image in zip(layers, shown):
        matrix = matrices[key][0].numpy()
        np.testing.assert_allclose(image.filled(0), matrix / np.abs(matrix).max(), atol=1e-6)
        future = np.triu(np.ones((10, 10), dtype=bool), 1)
        hidden = np.ma.getmaskarray(image)
        assert (hidden == (future if key[0] == "decoder" else False)).all()
    titles = [axes.get_title() for axes in figure.axes if axes.images]
    assert titles == ["layer 1", "layer 2", "layer 3", "layer 1", "layer 2"]


def test_heads_are_rows_of_panels(tmp_path):
    path = save_model(tmp_path / "a.pt", **HEADS)
    matrices = mixing_matrices(path, 10)
    rows = arrange(matrices, [2, 7])
    assert [[panel.row for panel in row] for row in rows] == [
        ["head 2", "", "", ""],
        ["head 7", "", "", ""],
    ]
    assert [panel.heading for panel in rows[0]] == [
        f"{side}\nlayer {layer}" for side in ("encoder", "decoder") for layer in (1, 2)
    ]
    assert (rows[1][2].matrix == matrices["decoder", 0][6].numpy()).all()
    assert len(images(drawn("matrices", path, "--length", 10, "--head", 2, 7))) == 2 * 4
    # where the two sides have no room beside each other they stand below each other
    path = save_model(tmp_path / "b.pt", **SIX, **HEADS)
    matrices = mixing_matrices(path, 10)
    assert [len(row) for row in arrange(matrices, range(1, 9))] == [6] * 16
    assert_legible(draw_matrices(arrange(matrices, [1, 8])))


def test_many_heads_are_not_all_drawn(tmp_path):
    path = save_model(tmp_path / "a.pt", token_mixing_heads=16)
    figure = drawn("matrices", path, "--length", 10)
    assert len(images(figure)) == 8 * 4 and "heads 1 to 8 of 16" in figure.get_suptitle()
    assert "head 1 of 16" in drawn("rows", path, "--length", 10).get_suptitle()


def test_rows_are_those_of_the_matrix(tmp_path):
    path = save_model(tmp_path / "a.pt", token_mixing_heads=4)
    matrices = mixing_matrices(path, 10)
    figure = drawn("rows", path, "--length", 10, "--head", 3, "--row", 0, 4, 9, "--reach", 5)
    assert labelled(figure) == ["t = 0", "t = 4", "t = 9"]
    for (side, layer), panel in zip(matrices, figure.axes):
        assert panel.get_xlim() == (-5, 5 if side == "encoder" else 0)
        for t, line in zip((0, 4, 9), panel.lines):
            x, y = line.get_xydata().T
            read = np.arange(t + 1 if side == "decoder" else 10)
            assert (x == read - t).all()
            weights = matrices[side, layer][2, t, read].numpy()
            np.testing.assert_array_equal(y.astype(np.float32), weights)


@pytest.mark.parametrize("kind", ["toeplitz", "gated", "depthwise-conv"])
def test_weights_by_distance(tmp_path, kind):
    heads = {} if kind == "depthwise-conv" else {"token_mixing_heads": 8}
    path = save_model(tmp_path / "a.pt", token_mixing=kind, **heads)
    matrices = mixing_matrices(path, 10)
    figure = drawn("rows", path, "--length", 10, "--head", 1, 8)
    assert labelled(figure) == ["head 1", "head 8"]
    for (side, layer), panel in zip(matrices, figure.axes):
        for head, line in zip((1, 8), panel.lines):
            x, y = line.get_xydata().T
            assert (x == np.arange(-9, 1 if side == "decoder" else 10)).all()
            matrix = matrices[side, layer][head - 1].numpy()
            for t in (0, 5, 9):  # every row is a part of the curve
                for s in range(t + 1 if side == "decoder" else 10):
                    assert np.float32(y[list(x).index(s - t)]) == matrix[t, s]
    refused("all rows are alike", "plot", "rows", path, "--row", 2, "-o", tmp_path / "a.png")


def test_sparsity_figure(tmp_path):
    path = save_model(tmp_path / "a.pt", encoder_layers=3)
    counts = sparsity(path, 0.2, 10).counts
    figure = drawn("sparsity", path, "--threshold", 0.2, "--length", 10)
    assert labelled(figure) == ["A (first 10 positions)", "B (fc1)", "C (fc2)"]
    assert figure.axes[1].get_title() == "decoder (A: its triangle)"
    assert "below 20% of the" in figure.axes[0].get_ylabel()
    for side, axes, depth in zip(("encoder", "decoder"), figure.axes, (3, 2)):
        for kind, line in zip("ABC", axes.lines):
            x, y = line.get_xydata().T
            assert list(x) == list(range(1, depth + 1))
            expected = [100 * counts[kind][side, layer].share for layer in range(depth)]
            np.testing.assert_allclose(y, expected)
    assert "(first 24 positions)" in labelled(drawn("sparsity", path, "--length", 99))[0]
    path = save_model(tmp_path / "t.pt", **HEADS)
    figure = drawn("sparsity", path, "--length", 10)
    assert "distances below 10" in labelled(figure)[0]
    assert figure.axes[1].get_title() == "decoder"


@pytest.mark.parametrize("kind", ["none", "conv"])
def test_without_mixing_matrices(tmp_path, kind):
    path = save_model(tmp_path / "a.pt", token_mixing=kind)
    for picture in ("matrices", "rows"):
        said = f"--token-mixing {kind}: only linear, toeplitz"
        refused(said, "plot", picture, path, "-o", tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()
    assert labelled(drawn("sparsity", path)) == ["B (fc1)", "C (fc2)"]


def test_files(tmp_path):
    path = save_model(tmp_path / "a.pt")
    png, svg = tmp_path / "a.png", tmp_path / "a.svg"
    command = ["plot", "matrices", path, "-o", png, "-o", svg, "--title", "Ours"]
    written = []
    for _ in range(2):  # the same picture is the same file
        assert resmlp(*command) == (0, f"{png}\n{svg}\n", "")
        written.append((png.read_bytes(), svg.read_text()))
    assert written[0] == written[1]
    assert written[0][0].startswith(b"\x89PNG") and "<svg" in written[0][1]
    width = int.from_bytes(png.read_bytes()[16:20], "big")
    assert abs(width - 300 * COLUMN) < 2  # 300 dots an inch
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.png", "a.pt", "a.svg"]


def test_refusals(tmp_path):
    good = save_model(tmp_path / "good.pt")
    torch.save({"model": {"w": torch.zeros(2)}, "cfg": {"model": {}}}, tmp_path / "other.pt")
    (tmp_path / "cut.pt").write_bytes(good.read_bytes()[:3000])
    state = torch.load(good)
    state["model"]["encoder.layers.1.token_mixing.mixing.weight"][0, 3, 3] = float("nan")
    torch.save(state, tmp_path / "nan.pt")
    state = torch.load(good)
    state["cfg"]["model"].max_source_positions = 12
    torch.save(state, tmp_path / "size.pt")
    fold_checkpoint(good, tmp_path / "folded.pt")
    (tmp_path / "folder.svg").mkdir()
    png = tmp_path / "a.png"
    cases = [
        ("other.pt is a checkpoint of another", ["matrices", tmp_path / "other.pt", "-o", png]),
        ("cut.pt", ["matrices", tmp_path / "cut.pt", "-o", png]),
        ("gone.pt", ["matrices", tmp_path / "gone.pt", "-o", png]),
        ("diverged", ["matrices", tmp_path / "nan.pt", "-o", png]),
        ("diverged", ["sparsity", tmp_path / "nan.pt", "-o", png]),
        ("mixing.weight: copying a param with", ["rows", tmp_path / "size.pt", "-o", png]),
        ("is folded", ["sparsity", tmp_path / "folded.pt", "-o", png]),
        ("a.gif: name a .png or .svg", ["matrices", good, "-o", tmp_path / "a.gif"]),
        ("has no folder", ["matrices", good, "-o", png, "-o", tmp_path / "no" / "a.svg"]),
        ("is a folder", ["matrices", good, "-o", png, "-o", tmp_path / "folder.svg"]),
        ("--length: must be at least 1", ["matrices", good, "-o", png, "--length", 0]),
        ("--head 2: this model has 1", ["matrices", good, "-o", png, "--head", 2]),
        ("--head: give one", ["rows", good, "-o", png, "--head", 1, 1]),
        ("the matrices drawn have rows 0 to 23", ["rows", good, "-o", png, "--row", 24]),
        ("--reach: must be at least 1", ["rows", good, "-o", png, "--reach", 0]),
        ("threshold 1.5", ["sparsity", good, "-o", png, "--threshold", 1.5]),
        ("--threshold: must be a number", ["sparsity", good, "-o", png, "--threshold", "nan"]),
    ]
    there = sorted(tmp_path.iterdir())
    for said, words in cases:
        refused(said, "plot", *words)
        assert sorted(tmp_path.iterdir()) == there, said


def test_a_full_disk_leaves_the_old_picture(tmp_path, monkeypatch):
    path, png = save_model(tmp_path / "a.pt"), tmp_path / "a.png"
    png.write_bytes(b"old")

    def full(self, file, **_):
        file.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", full)
    said = "a.png could not be written (No space left on device)"
    refused(said, "plot", "matrices", path, "-o", png)
    assert png.read_bytes() == b"old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.png", "a.pt"]
