"""Checkpoints without a training, and what makes a picture legible."""

from argparse import Namespace
from itertools import combinations
from unittest import mock

import torch
from helpers import SMALL, build_model
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from resmlp_mt.cli.main import build_parser
from resmlp_mt.cli.plot import figure_of

COLUMN = 8 / 2.54  # inches


def save_model(path, **options):
    """A checkpoint of a model with random weights; returns its path."""
    model, _ = build_model(**options)
    values = Namespace(arch="resmlp_mt_tiny", **{**SMALL, **options})
    torch.save({"cfg": {"model": values}, "model": model.state_dict()}, path)
    return path


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
