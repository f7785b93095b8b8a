"""The mean of checkpoints, and which files are taken for checkpoints."""

import pytest
import torch
from command import resmlp

from resmlp_mt.checkpoints.averaging import average_checkpoints, last_checkpoints
from resmlp_mt_runtime.errors import UserError


def save(path, seed):
    generator = torch.Generator().manual_seed(seed)
    weight = 3 + torch.rand(50, 30, generator=generator)
    model = {"w": weight, "n": torch.tensor(seed)}
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
    last.unlink()
    with pytest.raises(UserError, match="has no epoch checkpoints and no checkpoint_last.pt"):
        found(2, "epoch")


def test_sixteen_bits_and_shared_matrices(tmp_path):
    """Tied embeddings, of which fairseq saves copies on a GPU, are stored once; others are not."""
    sides = ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection")
    for tied in (lambda x: x, torch.clone):
        paths, mean = [], torch.zeros(50, 40, dtype=torch.float64)
        for number in range(10):
            shared = torch.rand(50, 40).half()
            mean += shared.double() / 10
            model = {f"{side}.weight": tied(shared) for side in sides}
            model |= {"version": torch.ones(1), "a": torch.zeros(40), "b": torch.zeros(40)}
            paths.append(tmp_path / f"checkpoint{number}.pt")
            torch.save({"model": model}, paths[-1])
        for float16, dtype in ((False, torch.float32), (True, torch.float16)):
            average_checkpoints(paths, tmp_path / "averaged.pt", float16=float16)
            averaged = torch.load(tmp_path / "averaged.pt")["model"]
            first, *others = (averaged[f"{side}.weight"] for side in sides)
            assert list(averaged) == list(model) and first.dtype == dtype
            assert torch.equal(first, mean.to(dtype))
            assert all(other.data_ptr() == first.data_ptr() for other in others)
            assert averaged["a"].data_ptr() != averaged["b"].data_ptr()
    other = {"model": model, "cfg": {"task": {"source_lang": "en", "target_lang": "fr"}}}
    torch.save(other, paths[3])
    with pytest.raises(UserError, match="checkpoint3.pt and .*different languages"):
        average_checkpoints(paths, tmp_path / "no.pt")
    for change in ({"a": torch.zeros(41)}, {"encoder.embed_tokens.weight": shared + 1}):
        torch.save({"model": {**model, **change}}, paths[3])
        with pytest.raises(UserError, match="checkpoint3.pt and .*different parameters"):
            average_checkpoints(paths, tmp_path / "no.pt")
    torch.save({"model": {"a": torch.full((1,), 1e6)}}, paths[3])
    with pytest.raises(UserError, match="a has values out of the range of float16"):
        average_checkpoints(paths[3:4], tmp_path / "no.pt", float16=True)


def test_the_command(tmp_path):
    for name in ("1", "2", "3", "_1_10", "_1_20"):
        save(tmp_path / f"checkpoint{name}.pt", len(name))
    out = tmp_path / "out.pt"
    by_epoch = "--num-epoch-checkpoints"
    for words, names in (
        ((tmp_path / "checkpoint3.pt", tmp_path / "checkpoint1.pt", "--float16"), "3 1"),
        ((tmp_path, by_epoch, 9), "3 2 1"),
        ((tmp_path, "--num-update-checkpoints", 2), "_1_20 _1_10"),
    ):
        said = resmlp("average", "--inputs", *words, "--output", out)
        paths = ", ".join(f"{tmp_path}/checkpoint{name}.pt" for name in names.split())
        assert said.status == 0 and said.out == f"{out}: mean of {paths}\n"
        note = f"note: {tmp_path} has fewer than 9 epoch checkpoints\n"
        assert said.err == (note if 9 in words else "")
        dtype = torch.float16 if "--float16" in words else torch.float32
        assert torch.load(out)["model"]["w"].dtype == dtype
        out.unlink()
