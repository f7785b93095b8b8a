"""A checkpoint is on the disk whole, or the one before it is."""

import errno
import os
import shutil
import signal

import pytest
import torch
from command import files_up_to
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq_programs import LAST
from processes import Forked

from resmlp_mt_runtime.errors import UserError


def save(source, target):
    return checkpoint_utils.torch_persistent_save(torch.load(source), str(target))


def copy(source, target):
    return PathManager.copy(str(source), str(target), overwrite=True)


def kill_this_process():
    os.kill(os.getpid(), signal.SIGKILL)


def disk_full():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def half_of(then):
    """Stands for ``torch.save`` or ``shutil.copyfile``: something happens in the middle of it."""

    def write(source, target):
        file = open(target, "wb") if isinstance(source, str) else target  # noqa: SIM115
        file.write(b"PK half of it")
        file.flush()
        then()

    return write


@pytest.mark.parametrize("write, replaced", [(copy, (shutil, "copyfile")), (save, (torch, "save"))])
def test_the_middle_of_a_write(tmp_path, monkeypatch, write, replaced):
    """The file that was there is there still; once there is room it is replaced."""
    old, new = tmp_path / LAST, tmp_path / "checkpoint_1_3.pt"
    torch.save({"model": 1.0}, old)
    torch.save({"model": 2.0}, new)
    with monkeypatch.context() as patch:
        patch.setattr(*replaced, half_of(kill_this_process))
        assert Forked(lambda: write(new, old), tmp_path / "log").wait() == -signal.SIGKILL
        assert torch.load(old)["model"] == 1.0 and len(list(tmp_path.glob("*.tmp"))) == 1
        patch.setattr(*replaced, half_of(disk_full))
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


def test_no_room_for_a_checkpoint(tmp_path):
    """Files may grow to half of it. PyTorch raises an error of its own over the system's."""
    with files_up_to(1 << 20), pytest.raises(UserError, match="File too large.: make room"):
        checkpoint_utils.torch_persistent_save({"w": torch.ones(1 << 19)}, f"{tmp_path}/a.pt")
    assert not list(tmp_path.iterdir())
