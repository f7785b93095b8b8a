"""The mean of checkpoints, and which files are taken for checkpoints."""

import pytest
import torch
from command import refused, resmlp

from resmlp_mt.checkpoints.averaging import average_checkpoints, last_checkpoints
from resmlp_mt_runtime.errors import UserError


def save(path, seed, **more):
    generator = torch.Generator().manual_seed(seed)
    weight = 3 + torch.rand(50, 30, generator=generator)
    model = {"w": weight, "n": torch.tensor(seed), **more}
    state = {"model": model, "last_optimizer_state": {"big": torch.zeros(9)}, "cfg": {"seed": 1}}
    torch.save({**state, "optimizer_history": [{"num_updates": seed}]}, path)
    return path


def test_mean_as_computed_in_float64(tmp_path):
    """Float32 sums would be out by more than the rounding of the result."""
    paths = [save(tmp_path / f"checkpoint{i}.pt", i) for i in range(1, 11)]
    average_checkpoints(paths, tmp_path / "averaged.pt")
    averaged = torch.load(tmp_path / "averaged.pt")
    mean = torch.stack([torch.load(path)["model"]["w"].double() for path in paths]).mean(0)
    assert (averaged["model"]["w"] - mean).abs().max() <= 2**-23 * 2
    assert list(averaged["model"]) == ["w", "n"] and averaged["model"]["n"] == 1
    assert averaged["model"]["w"].dtype == torch.float32
    assert "last_optimizer_state" not in averaged and averaged["cfg"] == {"seed": 1}


def test_which_checkpoints_are_averaged(tmp_path):
    def found(*arguments):
        return [path.name for path in last_checkpoints(tmp_path, *arguments)]

    for number, name in enumerate(("_1_900", "9", "_2_1000", "10", "_2_1100")):
        save(tmp_path / f"checkpoint{name}.pt", number)
    last = save(tmp_path / "checkpoint_last.pt", 3)
    save(tmp_path / "checkpoint_best.pt", 9)
    epochs = ["checkpoint10.pt", "checkpoint9.pt"]
    updates = ["checkpoint_2_1100.pt", "checkpoint_2_1000.pt", "checkpoint_1_900.pt"]
    assert found(3, "epoch") == epochs and found(1, "epoch") == epochs[:1]
    save(last, 5)  # the training ended within an epoch
    assert found(3, "epoch") == [last.name, *epochs] and found(1, "epoch") == [last.name]
    assert found(9, "update") == [last.name, *updates]
    for path in tmp_path.glob("*[0-9].pt"):
        path.unlink()
    assert found(3, "epoch") == [last.name]


def test_sixteen_bits_and_shared_matrices(tmp_path):
    paths, mean = [], torch.zeros(4, dtype=torch.float64)
    for number in range(10):
        shared = torch.arange(4).half() + number / 100
        more = {"version": torch.ones(1), "square": shared.view(2, 2)}
        mean += shared.double() / 10
        paths.append(tmp_path / f"checkpoint{number}.pt")
        torch.save({"model": {"embed": shared, **more, "out": shared}}, paths[-1])
    average_checkpoints(paths, tmp_path / "averaged.pt")
    averaged = torch.load(tmp_path / "averaged.pt")["model"]
    assert list(averaged) == ["embed", "version", "square", "out"]
    assert torch.equal(averaged["square"], averaged["embed"].view(2, 2))
    assert averaged["embed"].dtype == torch.float32
    assert torch.allclose(averaged["embed"].double(), mean, atol=1e-6)
    assert averaged["out"].data_ptr() == averaged["embed"].data_ptr()

    average_checkpoints(paths, tmp_path / "small.pt", float16=True)
    small = torch.load(tmp_path / "small.pt")["model"]
    assert small["embed"].dtype == torch.float16 and torch.equal(small["embed"], mean.half())
    assert small["out"].data_ptr() == small["embed"].data_ptr()

    torch.save({"model": {"embed": shared, **more, "out": shared.clone()}}, paths[3])
    with pytest.raises(UserError, match="checkpoint3.pt and .*different parameters"):
        average_checkpoints(paths, tmp_path / "no.pt")


def test_tied_embeddings_are_stored_once(tmp_path):
    """fairseq saves copies of them after a training on a GPU; other equal matrices stay apart."""
    sides = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")
    path, sizes = tmp_path / "checkpoint1.pt", []
    for tied in (lambda x: x, torch.clone):
        matrix, other = torch.rand(500, 40), torch.zeros(40)
        model = {**{f"{side}.weight": tied(matrix) for side in sides}, "a": other, "b": tied(other)}
        torch.save({"model": model}, path)
        average_checkpoints([path], tmp_path / "out.pt", float16=True)
        sizes.append((tmp_path / "out.pt").stat().st_size)
        averaged = torch.load(tmp_path / "out.pt")["model"]
        assert list(averaged) == list(model)
        assert all(torch.equal(averaged[name], model[name].half()) for name in model)
        assert (
            averaged[f"{sides[0]}.weight"].data_ptr() == averaged[f"{sides[2]}.weight"].data_ptr()
        )
    assert averaged["a"].data_ptr() != averaged["b"].data_ptr()
    assert 40_000 < sizes[0] < sizes[1] < sizes[0] + 1000


def test_the_command(tmp_path):
    for name in ("1", "2", "3", "_1_10", "_1_20"):
        save(tmp_path / f"checkpoint{name}.pt", len(name))
    out = tmp_path / "out.pt"
    by_epoch = "--num-epoch-checkpoints"
    for words, names in (
        ((tmp_path / "checkpoint3.pt", tmp_path / "checkpoint1.pt"), "checkpoint3.pt, checkpoint1"),
        ((tmp_path, by_epoch, 9), "checkpoint3.pt, checkpoint2.pt, checkpoint1.pt"),
        ((tmp_path, "--num-update-checkpoints", 2), "checkpoint_1_20.pt, checkpoint_1_10.pt"),
    ):
        said = resmlp("average", "--inputs", *words, "--output", out)
        assert said.status == 0 and said.out.startswith(f"{out}: mean of {names}")
        note = f"note: {tmp_path} has fewer than 9 epoch checkpoints\n"
        assert said.err == (note if 9 in words else "")
        out.unlink()


def test_refusals_of_the_command(tmp_path):
    path = save(tmp_path / "checkpoint1.pt", 1)
    other, wide = (save(tmp_path / f"{n}.pt", 1, v=torch.zeros(n)) for n in (2, 1))
    epochs, out = "--num-epoch-checkpoints", tmp_path / "out.pt"
    for words, said in (
        ((tmp_path,), f"{tmp_path}: add --num-epoch-checkpoints N or --num-update-checkpoints N"),
        ((path, epochs, 1), "--inputs: give one folder with --num-epoch-checkpoints"),
        ((tmp_path, epochs, 0), "--num-epoch-checkpoints: must be at least 1"),
        ((path, other), "different parameters"),
        ((other, wide), "different parameters"),
        ((path, tmp_path / "no.pt"), "no.pt: No such file or directory"),
    ):
        refused(said, "average", "--output", out, "--inputs", *words)
    path.rename(tmp_path / "checkpoint_1_9.pt")
    command = ("average", "--output", out, "--inputs", tmp_path)
    refused("has no epoch checkpoints and no checkpoint_last.pt: train fi", *command, epochs, 2)
    torch.save({"model": {"w": torch.ones(2)}}, tmp_path / "checkpoint_last.pt")
    refused("does not say how many updates", *command, "--num-update-checkpoints", 2)
    (tmp_path / "checkpoint_1_9.pt").rename(path)
    refused("is the input", "average", "--output", other, "--inputs", path, other)
    refused(
        "there is no folder", "average", "--output", tmp_path / "no" / "out.pt", "--inputs", path
    )
    assert not out.exists()
