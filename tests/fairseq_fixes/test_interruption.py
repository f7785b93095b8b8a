"""A checkpoint is on the disk whole, or the one before it is."""

import errno
import os
import resource
import shutil
import signal

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq_programs import refusal, train, training
from processes import Forked

from resmlp_mt.errors import UserError

LAST = "checkpoint_last.pt"


def save(source, target):
    return checkpoint_utils.torch_persistent_save(torch.load(source), str(target))


def copy(source, target):
    return PathManager.copy(str(source), str(target), overwrite=True)


def half_a_save(then):
    """Stands for ``torch.save``: something happens in the middle of it."""

    def save(state, file):
        file.write(b"PK half of it")
        file.flush()
        then()

    return save


def half_a_copy(then):
    """Stands for ``shutil.copyfile``."""

    def copyfile(source, target):
        with open(target, "wb") as file:
            half_a_save(then)(None, file)

    return copyfile


def kill_this_process():
    os.kill(os.getpid(), signal.SIGKILL)


def disk_full():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    "write, replaced, half",
    [(copy, (shutil, "copyfile"), half_a_copy), (save, (torch, "save"), half_a_save)],
)
def test_the_middle_of_a_write(tmp_path, monkeypatch, write, replaced, half):
    """The file that was there is there still; once there is room it is replaced."""
    old, new = tmp_path / LAST, tmp_path / "checkpoint_1_3.pt"
    torch.save({"model": 1.0}, old)
    torch.save({"model": 2.0}, new)
    with monkeypatch.context() as patch:
        patch.setattr(*replaced, half(kill_this_process))
        assert Forked(lambda: write(new, old), tmp_path / "log").wait() == -signal.SIGKILL
        assert torch.load(old)["model"] == 1.0 and len(list(tmp_path.glob("*.tmp"))) == 1
        patch.setattr(*replaced, half(disk_full))
        with pytest.raises(UserError, match=f"{LAST} could not be written .No space left on devic"):
            write(new, old)
        assert torch.load(old)["model"] == 1.0 and not list(tmp_path.glob("*.tmp"))
    write(new, old)
    assert torch.load(old)["model"] == torch.load(new)["model"] == 2.0
    # other errors are no full disk
    with pytest.raises(Exception) as caught:
        checkpoint_utils.torch_persistent_save({"model": lambda: None}, str(old))
    assert not isinstance(caught.value, (UserError, OSError))
    assert torch.load(old)["model"] == 2.0 and not list(tmp_path.glob("*.tmp"))


def test_no_room_for_a_checkpoint(corpus, tmp_path):
    """Files may grow to two thirds of a checkpoint."""
    options = training(corpus.data, tmp_path, "--batch-size", 8, "--save-interval-updates", 3)
    train(corpus.data, tmp_path, "--batch-size", 8, "--max-update", 2)
    before = (tmp_path / LAST).read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) * 2 // 3, hard))
    try:
        said = refusal("train", *options, "--max-update", 6)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert said.startswith(f"{tmp_path}/checkpoint_1_3.pt could not be written (File too large)")
    assert (tmp_path / LAST).read_bytes() == before and not list(tmp_path.glob("*.tmp"))
