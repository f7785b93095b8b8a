"""The mean of checkpoints, and which files are taken for checkpoints."""

import os
import weakref

import pytest
import torch

from resmlp_mt.checkpoints import averaging
from resmlp_mt.checkpoints.averaging import (
    average_checkpoints,
    final_checkpoints,
    last_checkpoints,
)
from resmlp_mt.checkpoints.loading import load_checkpoint
from resmlp_mt.cli.main import main
from resmlp_mt.errors import UserError


def save(path, seed, **more):
    generator = torch.Generator().manual_seed(seed)
    model = {"w": torch.randn(5, 3, generator=generator), "n": torch.tensor(seed), **more}
    torch.save({"model": model, "last_optimizer_state": {"big": torch.zeros(9)}, "cfg": 1}, path)
    return path


def test_mean_as_computed_in_float64(tmp_path):
    paths = [save(tmp_path / f"checkpoint{i}.pt", i) for i in range(1, 8)]
    assert last_checkpoints(tmp_path, 7) == paths[::-1]
    average_checkpoints(paths, tmp_path / "averaged.pt")
    averaged = torch.load(tmp_path / "averaged.pt")
    weights = [torch.load(path)["model"]["w"].double() for path in paths]
    assert torch.allclose(averaged["model"]["w"].double(), torch.stack(weights).mean(0), atol=1e-6)
    assert averaged["model"]["w"].dtype == torch.float32 and averaged["model"]["n"] == 1
    assert "last_optimizer_state" not in averaged and averaged["cfg"] == 1


def test_epochs_are_ordered_as_numbers(tmp_path):
    for name in ("checkpoint9", "checkpoint10", "checkpoint_last", "checkpoint_1_100"):
        save(tmp_path / f"{name}.pt", 1)
    names = [path.name for path in last_checkpoints(tmp_path, 2)]
    assert names == ["checkpoint10.pt", "checkpoint9.pt"]
    with pytest.raises(UserError, match="2 epoch checkpoints, fewer than the 3"):
        last_checkpoints(tmp_path, 3)


def test_checkpoints_by_update(tmp_path):
    for name in ("_1_900", "_2_1000", "_2_1100", "_3_80", "7", "8", "_best", "_last"):
        save(tmp_path / f"checkpoint{name}.pt", 1)
    assert [p.name for p in last_checkpoints(tmp_path, 3, "update")] == [
        *("checkpoint_2_1100.pt", "checkpoint_2_1000.pt", "checkpoint_1_900.pt")
    ]
    bounded = last_checkpoints(tmp_path, 2, "update", upper_bound=1000)
    assert [p.name for p in bounded] == ["checkpoint_2_1000.pt", "checkpoint_1_900.pt"]
    assert [p.name for p in last_checkpoints(tmp_path, 1, upper_bound=7)] == ["checkpoint7.pt"]
    with pytest.raises(UserError, match=r"2 epoch checkpoints, .* the 3 .*\(there are 4 by update"):
        last_checkpoints(tmp_path, 3)
    with pytest.raises(UserError, match="3 update checkpoints up to 1050, fewer than the 4"):
        last_checkpoints(tmp_path, 4, "update", upper_bound=1050)


def test_large_weights_and_many_groups(tmp_path, monkeypatch):
    """Float32 sums would be out by more than 1e-6 here. There are several groups."""
    monkeypatch.setattr(averaging, "SUMS", 8 * 1000)
    generator = torch.Generator().manual_seed(1)
    states = [
        {
            name: 3 + torch.rand(size, generator=generator)
            for name, size in (("a", 1500), ("b", 400), ("c", 500), ("d", 10), ("e", 1000))
        }
        for _ in range(10)
    ]
    paths = [tmp_path / f"checkpoint{i}.pt" for i in range(10)]
    for path, state in zip(paths, states):
        torch.save({"model": state}, path)
    average_checkpoints(paths, tmp_path / "averaged.pt")
    averaged = torch.load(tmp_path / "averaged.pt")["model"]
    assert list(averaged) == list(states[0])
    for name, value in averaged.items():
        mean = torch.stack([state[name].double() for state in states]).mean(0)
        # what is left is the rounding of the result to float32
        assert (value - mean).abs().max() <= 2**-23 * 2


def test_one_checkpoint_at_a_time(tmp_path, monkeypatch):
    """Of those that were read before, only the first is still held, unread, when one is read."""
    paths = [save(tmp_path / f"checkpoint{i}.pt", i) for i in range(1, 11)]
    read, held = [], []
    original = averaging.load_checkpoint

    def counting(path, mapped=False, checked=True):
        assert mapped
        held.append(sum(reference() is not None for reference in read))
        state = original(path, mapped, checked)
        read.append(weakref.ref(state["model"]["w"]))
        return state

    monkeypatch.setattr(averaging, "load_checkpoint", counting)
    average_checkpoints(paths, tmp_path / "averaged.pt")
    assert len(held) == 11 and max(held) == 1


def test_sixteen_bits_and_shared_matrices(tmp_path):
    paths, mean = [], torch.zeros(4, dtype=torch.float64)
    for number in range(10):
        shared = torch.arange(4).half() + number / 100
        mean += shared.double() / 10
        paths.append(tmp_path / f"checkpoint{number}.pt")
        torch.save({"model": {"embed": shared, "version": torch.ones(1), "out": shared}}, paths[-1])
    average_checkpoints(paths, tmp_path / "averaged.pt")
    averaged = torch.load(tmp_path / "averaged.pt")["model"]
    assert list(averaged) == ["embed", "version", "out"]
    assert averaged["embed"].dtype == torch.float32
    assert torch.allclose(averaged["embed"].double(), mean, atol=1e-6)
    assert averaged["out"].data_ptr() == averaged["embed"].data_ptr()

    torch.save(
        {"model": {"embed": shared, "version": torch.ones(1), "out": shared.clone()}}, paths[3]
    )
    with pytest.raises(UserError, match="checkpoint3.pt and .*different parameters"):
        average_checkpoints(paths, tmp_path / "no.pt")


def test_different_models_are_not_averaged(tmp_path):
    a, b = save(tmp_path / "a.pt", 1), save(tmp_path / "b.pt", 1, v=torch.zeros(2))
    with pytest.raises(UserError, match="different parameters"):
        average_checkpoints([a, b], tmp_path / "out.pt")
    assert not (tmp_path / "out.pt").exists()


class Command:
    """Unpickled carelessly, this creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_checkpoint_that_carries_code_is_refused_and_not_run(tmp_path):
    torch.save({"model": {}, "extra": Command(tmp_path / "was-run")}, tmp_path / "bad.pt")
    with pytest.raises(UserError, match="bad.pt .* refused"):
        load_checkpoint(tmp_path / "bad.pt")
    assert not (tmp_path / "was-run").exists()


def test_damaged_and_foreign_files_are_refused(tmp_path):
    whole = save(tmp_path / "whole.pt", 1).read_bytes()
    for name, content in (("cut", whole[: len(whole) // 2]), ("none", b""), ("text", b"hello\n")):
        path = tmp_path / f"{name}.pt"
        path.write_bytes(content)
        with pytest.raises(UserError, match=f"{name}.pt"):
            load_checkpoint(path)
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(UserError, match="not a fairseq checkpoint"):
        load_checkpoint(tmp_path / "list.pt")
    with pytest.raises(UserError, match="gone.pt"):
        load_checkpoint(tmp_path / "gone.pt")


def average(*arguments):
    return main(["average", *map(str, arguments)])


def test_the_command(tmp_path, capsys):
    """Files as they are named, or the last ones of a folder by epoch or update."""
    for name in ("1", "2", "3", "_1_10", "_1_20"):
        save(tmp_path / f"checkpoint{name}.pt", len(name))
    out = tmp_path / "out.pt"
    for words, said in (
        ((tmp_path / "checkpoint3.pt", tmp_path / "checkpoint1.pt"), "checkpoint3.pt, checkpoint1"),
        ((tmp_path, "--num-epoch-checkpoints", 2), "checkpoint3.pt, checkpoint2.pt"),
        ((tmp_path, "--num-update-checkpoints", 2), "checkpoint_1_20.pt, checkpoint_1_10.pt"),
        (
            (tmp_path, "--num-epoch-checkpoints", 1, "--checkpoint-upper-bound", 2),
            "checkpoint2.pt",
        ),
    ):
        assert average("--inputs", *words, "--output", out) == 0
        assert capsys.readouterr().out.startswith(f"{out}: mean of {said}")
        out.unlink()


def test_refusals_of_the_command(tmp_path, capsys):
    path = save(tmp_path / "checkpoint1.pt", 1)
    epochs = "--num-epoch-checkpoints"
    for words, said in (
        ((tmp_path,), f"{tmp_path}: add --num-epoch-checkpoints N or --num-update-checkpoints N"),
        ((path, "--checkpoint-upper-bound", 1), "--checkpoint-upper-bound: add --num-epoch"),
        ((path, epochs, 1), "--inputs: give one folder with --num-epoch-checkpoints"),
        ((tmp_path, epochs, 0), "--num-epoch-checkpoints 0: must be at least 1"),
        ((tmp_path, epochs, 2), "has 1 epoch checkpoints, fewer than the 2 to average"),
        ((path, "--output", tmp_path / "no" / "out.pt"), "has no folder"),
    ):
        words = words if "--output" in words else (*words, "--output", tmp_path / "out.pt")
        assert average("--inputs", *words) == 1
        assert said in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint1.pt"]


def test_what_a_short_training_has_left(tmp_path):
    with pytest.raises(UserError, match="checkpoint_last.pt: no such file: train first"):
        final_checkpoints(tmp_path, 3, "epoch")
    last = save(tmp_path / "checkpoint_last.pt", 1)
    assert final_checkpoints(tmp_path, 3, "epoch") == [last]
    epochs = [save(tmp_path / f"checkpoint{number}.pt", number) for number in (1, 2)]
    assert final_checkpoints(tmp_path, 3, "epoch") == epochs[::-1]
    assert final_checkpoints(tmp_path, 1, "epoch") == [last]
