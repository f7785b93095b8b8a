"""A run that is killed, or whose disk is full, resumes as if nothing had happened."""

import errno
import os
import resource
import shutil
import signal
import subprocess
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq_programs import CRITERION, PACKAGE, RECIPE, SMALL_MODEL, console_script
from interrupting import LAST, PHASES, killed_run, train_through, unlike
from processes import Forked, forked

from resmlp_mt.errors import UserError

UPDATES = 22


def words(data, folder):
    """A training of eight updates an epoch, with dropout, and a save in three."""
    return (
        *(data, "--user-dir", PACKAGE, "--save-dir", folder, *SMALL_MODEL, *RECIPE, *CRITERION),
        *("--batch-size", 8, "--max-update", UPDATES, "--save-interval-updates", 3),
        *("--update-epoch-batch-itr", "True", "--dropout", 0.1),
    )


def training(data, folder):
    return partial(forked, "fairseq-train", words(data, folder))


@pytest.fixture(scope="module")
def alone(corpus, tmp_path_factory):
    """A run that was left alone: its ``folder``, and how long its phases took."""
    folder = tmp_path_factory.mktemp("alone")
    seconds = train_through(training(corpus.data, folder), folder / "log")
    return SimpleNamespace(folder=folder, seconds=seconds)


def test_killed_in_a_save_a_validation_and_a_step(corpus, alone, tmp_path):
    aims, folder = PHASES[::-1], tmp_path / "checkpoints"
    start = training(corpus.data, folder)
    kills = killed_run(start, folder, aims, UPDATES, alone.seconds, seed=3)
    assert len({update for _, update in kills}) == 3
    assert unlike(alone.folder / LAST, folder / LAST) == []


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
    monkeypatch.setattr("resmlp_mt.fairseq_fixes.trainings.PAUSE", 0.0)
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
    monkeypatch.setattr("resmlp_mt.fairseq_fixes.trainings.PAUSE", 0.0)
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


def test_no_room_for_a_checkpoint(corpus, alone, tmp_path):
    """The installed program, whose files may grow to two thirds of a checkpoint."""
    shutil.copy(alone.folder / "checkpoint_1_6.pt", tmp_path / LAST)
    before = (tmp_path / LAST).read_bytes()
    limit = len(before) * 2 // 3
    process = subprocess.run(
        [console_script("train"), *map(str, words(corpus.data, tmp_path))],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        timeout=600,
    )
    said = process.stdout + process.stderr
    last = said.rstrip().rpartition("\n")[2]
    assert process.returncode > 0 and "Traceback" not in said
    assert last.startswith(f"fairseq-train: error: {tmp_path}") and "File too large" in last
    assert not list(tmp_path.glob("*.tmp"))
    assert "epoch 1 @ 6 updates" in said  # where it went on from
    assert (tmp_path / LAST).read_bytes() == before
    train_through(training(corpus.data, tmp_path), tmp_path / "log")
    assert unlike(alone.folder / LAST, tmp_path / LAST) == []
