"""The scripts: each does its one thing, and refuses bad input in one line."""

import subwords
import torch

from resmlp_mt.checkpoints.inspection import mixing_matrices
from resmlp_mt.cli.terminal import run_main


def call(script, monkeypatch, *arguments):
    """Run a script's main as its command line would; gives the exit status."""
    monkeypatch.setattr("sys.argv", [f"{script.__name__}.py", *map(str, arguments)])
    return run_main(script.main)


def test_subwords(tmp_path, monkeypatch):
    text = [f"the {word} is here" for word in ("cat", "dog", "fox", "hen")]
    (tmp_path / "train.en").write_text("\n".join(text) + "\n")
    arguments = ["train", "--vocab-size", 30, "--prefix", tmp_path / "spm", tmp_path / "train.en"]
    assert call(subwords, monkeypatch, *arguments) == 0
    arguments = ["encode", "--model", tmp_path / "spm.model", tmp_path / "train.en"]
    assert call(subwords, monkeypatch, *arguments) == 0
    pieces = (tmp_path / "train.sp.en").read_text().splitlines()
    decoded = [line.replace(" ", "").replace("▁", " ").strip() for line in pieces]
    assert decoded == text


def test_refusals(tmp_path, monkeypatch, capsys):
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "two").write_text("a\nb\n")
    cases = [
        (subwords, ["encode", "--model", tmp_path / "no.model", tmp_path / "one"], "no.model"),
    ]
    for script, arguments, said in cases:
        assert call(script, monkeypatch, *arguments) == 1
        printed = capsys.readouterr().err.strip()
        assert said in printed and len(printed.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


def test_matrices_before_and_after_training(trained):
    before = mixing_matrices(trained.path, 12, before_training=True)
    after = mixing_matrices(trained.path, 12)
    assert set(before) == set(after) == {(s, i) for s in ("encoder", "decoder") for i in (0, 1)}
    for (side, layer), matrix in after.items():
        assert matrix.shape == (1, 12, 12)
        assert not torch.equal(matrix, before[side, layer])
        assert (side == "encoder") == bool(matrix.triu(1).count_nonzero())
    # what training began from is drawn from the seed in the checkpoint: the same every time
    again = mixing_matrices(trained.path, 12, before_training=True)
    assert all(torch.equal(before[key], again[key]) for key in before)
