"""The mean of checkpoints, and which files are taken for checkpoints."""

import os

import pytest
import torch

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.averaging import average_checkpoints, last_checkpoints, load_checkpoint


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
