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


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr("resmlp_mt.fairseq_fixes.trainings.PAUSE", 0.0)


def last_good(folder):
    """A checkpoint that is to survive, and another that is to take its place."""
    old, new = folder / LAST, folder / "checkpoint_1_3.pt"
    for path, value in ((old, 1.0), (new, 2.0)):
        torch.save({"model": {"weight": torch.full((1000,), value)}}, path)
    return old, new


def value(path):
    return torch.load(path)["model"]["weight"].unique().item()


def half_a_copy(then):
    """Stands for ``shutil.copyfile``: something happens in the middle of it."""

    def copyfile(source, target):
        with open(source, "rb") as read, open(target, "wb") as write:
            write.write(read.read(os.path.getsize(source) // 2))
            write.flush()
            then()

    return copyfile


def half_a_save(then):
    """Stands for ``torch.save``."""

    def save(state, file):
        file.write(b"PK half of it")
        file.flush()
        then()

    return save


def kill_this_process():
    os.kill(os.getpid(), signal.SIGKILL)


def disk_full():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def copy(old, new):
    return PathManager.copy(str(new), str(old), overwrite=True)


def save(old, new):
    return checkpoint_utils.torch_persistent_save(torch.load(new), str(old))


@pytest.mark.parametrize(
    "write, replace, half",
    [(copy, (shutil, "copyfile"), half_a_copy), (save, (torch, "save"), half_a_save)],
)
def test_the_middle_of_a_write(tmp_path, monkeypatch, write, replace, half):
    """The file that was there is there still; once there is room it is replaced."""
    old, new = last_good(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(*replace, half(kill_this_process))
        process = Forked(lambda: write(old, new), tmp_path / "log")
        assert process.wait(60) == -signal.SIGKILL
        assert value(old) == 1.0 and len(list(tmp_path.glob("*.tmp"))) == 1
        patch.setattr(*replace, half(disk_full))
        with pytest.raises(UserError, match=f"{LAST} could not be written .No space left on devic"):
            write(old, new)
        assert value(old) == 1.0 and not list(tmp_path.glob("*.tmp"))
    write(old, new)
    assert value(old) == value(new) == 2.0 and not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("write", [copy, save])
def test_an_error_that_passes(tmp_path, monkeypatch, write):
    """A network's file system, for instance, is back after a moment."""
    old, new = last_good(tmp_path)
    rename, failing = os.replace, [errno.ESTALE, errno.EIO]

    def replace(source, target):
        if failing:
            number = failing.pop()
            raise OSError(number, os.strerror(number))
        rename(source, target)

    monkeypatch.setattr(os, "replace", replace)
    write(old, new)
    assert value(old) == 2.0 and not failing and not list(tmp_path.glob("*.tmp"))


def test_other_errors_are_no_full_disk(tmp_path):
    """What cannot be pickled keeps its traceback."""
    old, _ = last_good(tmp_path)
    with pytest.raises(Exception) as caught:
        checkpoint_utils.torch_persistent_save({"model": lambda: None}, str(old))
    assert not isinstance(caught.value, (UserError, OSError))
    assert value(old) == 1.0 and not list(tmp_path.glob("*.tmp"))


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
