"""Checkpoints without a training, and what makes a picture legible."""

from argparse import Namespace
from itertools import combinations
from unittest import mock

import torch
from helpers import SMALL, build_model
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from resmlp_mt.cli.main import build_parser

SMALLEST = 6  # points
COLUMN = 8 / 2.54  # inches


def save_model(path, seed=0, **options):
    """A checkpoint of a model with random weights; returns its path."""
    model, _ = build_model(seed=seed, **options)
    values = Namespace(arch="resmlp_mt_tiny", **{**SMALL, **options})
    torch.save({"cfg": {"model": values}, "model": model.state_dict()}, path)
    return path


def drawn(kind, *words):
    """The figure that ``resmlp-mt plot KIND WORDS`` would write."""
    from resmlp_mt.cli.plot import figure_of

    return figure_of(build_parser("plot").parse_args([kind, *map(str, words), "-o", "no.png"]))


def labelled(figure):
    """The labels in the legend."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def assert_legible(figure, width=COLUMN):
    """As wide as a column; no letter below 6 points, none cut off, none upon another."""
    assert abs(figure.get_figwidth() - width) < 0.01
    page, boxes = figure.bbox, []
    for text, box in _drawn_texts(figure):
        assert text.get_fontsize() >= SMALLEST, text
        assert box.x0 >= -1 and box.y0 >= -1, (text, box)
        assert box.x1 <= page.x1 + 1 and box.y1 <= page.y1 + 1, (text, box)
        boxes.append((text, box))
    assert boxes
    for (one, a), (other, b) in combinations(boxes, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        along = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across < 2 or along < 2, (one, other)


def _drawn_texts(figure):
    """Each text that comes to paper, with its extent."""
    drawn, draw = [], Text.draw

    def record(text, renderer):
        draw(text, renderer)
        if text.get_visible() and text.get_text().strip():
            drawn.append((text, text.get_window_extent(renderer)))

    with mock.patch.object(Text, "draw", record):
        FigureCanvasAgg(figure).draw()
    return drawn
