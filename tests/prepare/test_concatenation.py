"""Longer lines for training: what they are made of, and what is refused."""

import gzip

import pytest
from command import refused, resmlp

from resmlp_mt.prepare.concatenation import drawn
from resmlp_mt.text.lines import read_lines

PAIRS = [(f"a{i}", f"ü{i}") for i in range(9)]


@pytest.fixture
def text(tmp_path):
    """Options for two files, the source in gzip."""
    source, target = tmp_path / "train.en.gz", tmp_path / "train.de"
    source.write_bytes(gzip.compress("".join(f"{a}\n" for a, _ in PAIRS).encode()))
    target.write_text("".join(f"{b}\n" for _, b in PAIRS), encoding="utf-8")
    return ["concatenate", "--source", source, "--target", target]


def test_longer_pairs_are_made_of_different_ones():
    longer = list(drawn(9, most=3, number=50, seed=1))
    assert {len(chosen) for chosen in longer} == {2, 3}
    assert all(len(set(chosen)) == len(chosen) for chosen in longer)
    assert longer == list(drawn(9, 3, 50, 1)) != list(drawn(9, 3, 50, 2))


def test_text_stands_before_the_longer_pairs(text, tmp_path):
    prefix = tmp_path / "new" / "train"
    words = [*text, "--output-prefix", prefix, "--share", "2", "--most", "3"]
    said = resmlp(*words)
    files = said.out.split()
    assert said.status == 0 and files == [f"{prefix}.en", f"{prefix}.de"]
    sides = [list(read_lines(file)) for file in files]
    assert list(zip(*sides))[: len(PAIRS)] == PAIRS and len(sides[0]) == len(sides[1]) == 27
    longer = list(zip(*sides))[len(PAIRS) :]
    assert {len(source.split()) for source, _ in longer} == {2, 3}
    assert all(source.replace("a", "ü") == target for source, target in longer)
    assert resmlp(*words).status == 0  # the same again
    assert [list(read_lines(file)) for file in files] == sides
    assert len(list(prefix.parent.iterdir())) == 2


@pytest.mark.parametrize(
    "options, said",
    [
        (["--most", 1], "--most 1"),
        (["--most", 10], "at most the 9 pairs"),
        (["--share", 0], "--share 0"),
        (["--share", "nan"], "--share: must be a number"),
        (["--share", 1e12], "--share 1e+12: must be above 0 and at most 100"),
        (["--target", "{folder}/train.en.gz"], "by two languages"),
        (["--target", "{folder}/none.de"], "none.de"),
        (["--target", "{folder}/short.de"], "has 9 lines but"),
        (["--output-prefix", "{folder}/train"], "train.de is read"),
        (["--output-prefix", "{folder}/train.de/x"], "choose a folder"),
    ],
)
def test_refusals(text, options, said, tmp_path):
    options = [str(option).format(folder=tmp_path) for option in options]
    (tmp_path / "short.de").write_text("b\n" * 8)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    refused(said, *text, "--output-prefix", tmp_path / "new" / "train", *options)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
