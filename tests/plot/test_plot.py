"""Pictures of matrices and curves: what is in them, that they are legible, what is refused."""

from itertools import combinations
from unittest import mock

import numpy as np
import pytest
import reference_model
import torch
from command import resmlp, shell
from fairseq_programs import load
from helpers import save_model
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from resmlp_mt.cli.main import build_parser
from resmlp_mt.cli.plot import figure_of
from resmlp_mt.plot.curves import draw_curves, read_curves
from resmlp_mt.plot.matrices import arrange, draw_matrices, mixing_matrices
from resmlp_mt.plot.style import PAGE

COLUMN = 8 / 2.54  # inches
SIX, MANY = {"encoder_layers": 6, "decoder_layers": 6}, {"encoder_layers": 12, "decoder_layers": 12}
HEADS = {"token_mixing": "toeplitz", "token_mixing_heads": 8}
SAYS = "2020-01-01 00:00:00 | INFO | "
TRAIN = SAYS + 'train_inner | {{"num_updates": "{}", "nll_loss": "{}"}}\n'
VALID = SAYS + 'valid | {{"valid_num_updates": "{}", "valid_nll_loss": "{}"}}\n'


def drawn(kind, *words):
    """The figure that ``resmlp-mt plot KIND WORDS`` would write."""
    return figure_of(build_parser("plot").parse_args([kind, *map(str, words), "-o", "no.png"]))


def labelled(figure):
    """The labels in the legend."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def assert_legible(figure, width=COLUMN):
    """As wide as a column; no letter below 6 points, none cut off, none upon another."""
    assert abs(figure.get_figwidth() - width) < 0.01
    boxes, draw = [], Text.draw

    def record(text, renderer):
        draw(text, renderer)
        if text.get_visible() and text.get_text().strip():
            boxes.append((text, text.get_window_extent(renderer)))

    with mock.patch.object(Text, "draw", record):
        FigureCanvasAgg(figure).draw()
    assert boxes
    for text, box in boxes:
        assert text.get_fontsize() >= 6, text
        assert min(box.x0, box.y0) >= -1, (text, box)
        assert box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1, (text, box)
    for (one, a), (other, b) in combinations(boxes, 2):
        shared = Bbox.intersection(a, b)
        assert shared is None or min(shared.size) < 2, (one, other)


def images(figure):
    """The array of each heat map, from the first panel to the last."""
    return [axes.images[0].get_array() for axes in figure.axes if axes.images]


def test_matrices(trained, tmp_path):
    after = mixing_matrices(trained.path, 12)
    assert set(after) == {(s, i) for s in ("encoder", "decoder") for i in (0, 1)}
    for (side, _), matrix in after.items():
        assert matrix.shape == (1, 12, 12)
        assert (side == "encoder") == bool(matrix.triu(1).count_nonzero())
    # the file of pretrained embeddings may be gone
    state = load(trained.path)
    state["cfg"]["model"].encoder_embed_path = str(tmp_path / "gone.vec")
    torch.save(state, tmp_path / "model.pt")
    found = mixing_matrices(tmp_path / "model.pt", 12)
    assert all(torch.equal(found[key], matrix) for key, matrix in after.items())
    assert len(images(drawn("matrices", tmp_path))) == 4  # of the folder's model.pt


@pytest.mark.parametrize("options", [{"encoder_layers": 1}, MANY, HEADS], ids=["1", "12", "heads"])
def test_matrices_are_legible(tmp_path, options):
    path = save_model(tmp_path / "a.pt", **options)
    title = "A heading that is wider than the " * 3
    figure = drawn("matrices", path, "--length", 20, "--title", title)
    assert_legible(figure, figure.get_figwidth())
    assert figure.get_figwidth() in (pytest.approx(COLUMN), pytest.approx(PAGE))


@pytest.mark.parametrize("kind", ["linear", "gated"])
def test_heat_maps_are_the_matrices(tmp_path, kind):
    path = save_model(tmp_path / "a.pt", encoder_layers=3, token_mixing=kind)
    matrices = mixing_matrices(path, 10)
    figure = drawn("matrices", path, "--length", 10)
    layers = [("encoder", 0), ("encoder", 1), ("encoder", 2), ("decoder", 0), ("decoder", 1)]
    for key, image in zip(layers, images(figure), strict=True):
        values = matrices[key][0].numpy()
        np.testing.assert_allclose(image.filled(0), values / np.abs(values).max(), atol=1e-6)
        future = np.triu(np.ones((10, 10), dtype=bool), 1)
        hidden = np.ma.getmaskarray(image)
        assert (hidden == (future if key[0] == "decoder" else False)).all()
    titles = [axes.get_title() for axes in figure.axes if axes.images]
    assert titles == ["layer 1", "layer 2", "layer 3", "layer 1", "layer 2"]
    for side in ("encoder", "decoder"):
        assert torch.equal(matrices[side, 0], by_hand(path, kind, side, 10))


def by_hand(path, kind, side, length):
    """The first layer's matrix out of its parameter."""
    name = "toeplitz.weight" if kind == "gated" else "weight"
    weight = torch.load(path)["model"][f"{side}.layers.0.token_mixing.mixing.{name}"]
    return torch.stack([reference_model.matrix(head, length, side == "decoder") for head in weight])


def test_heads_are_rows_of_panels(tmp_path):
    path = save_model(tmp_path / "a.pt", **HEADS)
    matrices = mixing_matrices(path, 10)
    rows = arrange(matrices, [2, 7])
    assert [[panel.row for panel in row if panel.row] for row in rows] == [["head 2"], ["head 7"]]
    assert [panel.heading for panel in rows[0]] == [
        f"{side}\nlayer {layer}" for side in ("encoder", "decoder") for layer in (1, 2)
    ]
    assert (rows[1][2].matrix == matrices["decoder", 0][6].numpy()).all()
    # where the two sides have no room beside each other, they stand below each other
    matrices = mixing_matrices(save_model(tmp_path / "b.pt", **SIX, **HEADS), 10)
    assert [len(row) for row in arrange(matrices, range(1, 9))] == [6] * 16
    assert_legible(draw_matrices(arrange(matrices, [1, 8])))
    path = save_model(tmp_path / "c.pt", token_mixing_heads=16)
    figure = drawn("matrices", path, "--length", 10)
    assert len(images(figure)) == 8 * 4
    assert figure.get_suptitle().endswith(", heads 1 to 8 of 16")


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


def test_a_fresh_machine_prints_nothing_but_the_file(tmp_path):
    """No cache of fonts is there yet, whose making is logged in hundreds of lines."""
    save_model(tmp_path / "a.pt")
    fresh = {"HOME": str(tmp_path / "home"), "MPLCONFIGDIR": str(tmp_path / "fonts")}
    done = shell("resmlp-mt plot matrices a.pt -o a.png", tmp_path, **fresh)
    assert (done.returncode, done.stdout, done.stderr) == (0, "a.png\n", "")


@pytest.fixture
def log(tmp_path):
    """A log of two validations in a run's folder."""
    path = tmp_path / "a-run" / "checkpoints" / "train.log"
    path.parent.mkdir(parents=True)
    lines = [TRAIN.format(i, 9 - i / 100) for i in range(10, 401, 10)]
    lines += [VALID.format(200, 6.5), VALID.format(400, 5.25)]
    path.write_text("something else\n" + "".join(lines))
    return path


SIMPLE = """\
train_inner | epoch 001:     10 / 226 loss=9.312, nll_loss=9.25, ppl=609.5, num_updates=10, lr=1e-05
train_inner | epoch 001:     20 / 226 loss=8.1, nll_loss=8, ppl=256, wps=0.1|train_inner | epoch 0
valid | epoch 001 | valid on 'valid' subset | loss 6.1 | nll_loss 5.75 | ppl 53.8 | num_updates 226
train | epoch 001 | loss 7.3 | nll_loss 7.1 | num_updates 226 | train_wall 5
valid | epoch 002 | valid on 'valid' subset | loss 5.5 | ppl 45.3 | num_updates 452
"""


def test_curves_of_the_default_log_format(tmp_path):
    """Of label_smoothed_cross_entropy, then of cross_entropy, whose loss is the nll."""
    (tmp_path / "a.log").write_text("".join(SAYS + line for line in SIMPLE.splitlines(True)))
    (curve,) = read_curves([tmp_path / "a.log"]).values()
    assert curve == {"train": [(10, 9.25)], "valid": [(226, 5.75), (452, 5.5)]}


def test_curves_and_their_names(log, tmp_path):
    other = tmp_path / "c.log"
    other.write_text(VALID.format(200, 7.5))
    found = read_curves([log, other, f"mine={log}"])
    assert list(found) == ["a-run", "c", "mine"]
    assert found["mine"]["valid"] == [(200, 6.5), (400, 5.25)]
    assert len(found["mine"]["train"]) == 40 and found["mine"]["train"][-1] == (400, 5.0)
    assert found["c"] == {"train": [], "valid": [(200, 7.5)]}
    figure = drawn("curves", log, other, f"mine={log}")
    assert_legible(figure)
    assert labelled(figure) == ["a-run (5.25)", "c (7.50)", "mine (5.25)"]
    first = figure.axes[0].lines[0]
    assert first.get_ydata().tolist() == [6.5, 5.25] and first.get_xdata().tolist() == [200, 400]
    assert figure.axes[0].get_ylabel() == "validation nll (bits per token)"
    assert figure.get_suptitle() == "Learning curves"
    for title in ("mine", ""):  # a heading of one's own, or none
        assert drawn("curves", log, "--title", title).get_suptitle() == title
    # one training has its training loss too
    figure = drawn("curves", log)
    assert_legible(figure)
    assert labelled(figure) == ["training", "validation"]
    training, validation = figure.axes[0].lines
    assert len(training.get_xdata()) == 40 and validation.get_ydata().tolist() == [6.5, 5.25]
    low, high = figure.axes[0].get_ylim()
    assert low < 5 and 6.5 < high < 9


def test_many_curves():
    drawn = [{"train": [], "valid": [(1, 9 - i), (2, 8 - i)]} for i in range(14)]
    curves = {f"_a rather ${i}$ long name of system": curve for i, curve in enumerate(drawn)}
    figure = draw_curves(curves, "Fourteen of them")
    assert_legible(figure)
    assert labelled(figure)[13] == "_a rather $13$ long name of system (-5.00)"
    seen = {(line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines}
    assert len(seen) == 14
