"""Longer lines for training: what they are made of, and what is refused."""

import gzip

import concatenate as script
import pytest
from test_scripts import call

from resmlp_mt.prepare.concatenation import joined
from resmlp_mt.text.lines import read_lines

PAIRS = [(f"a{i}", f"b{i}") for i in range(9)]


@pytest.fixture
def text(tmp_path):
    """Options for two files, the source in gzip."""
    source, target = tmp_path / "train.en.gz", tmp_path / "train.de"
    source.write_bytes(gzip.compress("".join(f"{a}\n" for a, _ in PAIRS).encode()))
    target.write_text("".join(f"{b}\n" for _, b in PAIRS))
    return ["--source", source, "--target", target]


def test_longer_pairs_are_made_of_whole_ones():
    longer = joined(PAIRS, most=3, number=50, seed=1)
    assert {len(source.split()) for source, _ in longer} == {2, 3}
    assert all(source.replace("a", "b") == target for source, target in longer)
    assert all(len(set(source.split())) == len(source.split()) for source, _ in longer)
    assert longer == joined(PAIRS, 3, 50, 1) != joined(PAIRS, 3, 50, 2)


def test_text_stands_before_the_longer_pairs(text, monkeypatch, capsys, tmp_path):
    prefix = tmp_path / "new" / "train"
    arguments = [*text, "--output-prefix", prefix, "--share", "2", "--most", "2"]
    assert call(script, monkeypatch, *arguments) == 0
    files = capsys.readouterr().out.split()
    assert files == [f"{prefix}.en", f"{prefix}.de"]
    sides = [list(read_lines(file)) for file in files]
    assert list(zip(*sides))[: len(PAIRS)] == PAIRS and len(sides[0]) == len(sides[1]) == 27
    assert {len(line.split()) for line in sides[0][len(PAIRS) :]} == {2}
    assert call(script, monkeypatch, *arguments) == 0  # the same again
    assert [list(read_lines(file)) for file in files] == sides


@pytest.mark.parametrize(
    "options, said",
    [
        (["--most", 1], "--most 1"),
        (["--most", 10], "at most the 9 pairs"),
        (["--share", 0], "--share 0"),
        (["--share", "nan"], "--share nan"),
        (["--share", 1e12], "--share 1e+12: must be above 0 and at most 100"),
        (["--target", "{folder}/train.en.gz"], "by two languages"),
        (["--target", "{folder}/none.de"], "none.de"),
        (["--output-prefix", "{folder}/train"], "train.de is read"),
        (["--output-prefix", "{folder}/train.de/x"], "choose a folder"),
    ],
)
def test_refusals(text, options, said, monkeypatch, capsys, tmp_path):
    options = [str(option).format(folder=tmp_path) for option in options]
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    arguments = [*text, "--output-prefix", tmp_path / "new" / "train", *options]
    assert call(script, monkeypatch, *arguments) == 1
    error = capsys.readouterr().err.strip()
    assert said in error and len(error.splitlines()) == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
