"""Atomic writes, locks, and records of what a result was made from."""

import errno
import os
import signal
import time
from pathlib import Path
from unittest import mock

import pytest
from command import shell
from processes import Forked

from resmlp_mt_runtime import UserError, files


def test_what_a_dead_process_left_is_removed_and_a_living_one_s_is_not(tmp_path):
    path = tmp_path / "a.json"

    def killed():
        with files.whole_file(path) as temporary:
            temporary.write_text("x")
            os.kill(os.getpid(), signal.SIGKILL)

    dead = Forked(killed, tmp_path / "log")
    assert dead.wait() == -signal.SIGKILL
    (left,) = tmp_path.glob("a.json.*.tmp")
    living = left.with_name(left.name.replace(f".{dead.pid}.", f".{os.getppid()}."))
    living.touch()
    files.write_json(path, 1)
    assert set(tmp_path.iterdir()) == {path, living, tmp_path / "log"}


def test_links_under_a_temporary_name_are_not_followed(tmp_path, monkeypatch):
    (tmp_path / "victim").write_text("kept")
    name = files._own_name(f"{tmp_path}/a.json")
    os.symlink("victim", name)
    files.write_json(tmp_path / "a.json", 1)
    assert files.read_json(tmp_path / "a.json") == 1
    os.symlink("victim", name)
    monkeypatch.setattr(files, "_own_name", lambda path: name)  # put there just now
    with pytest.raises(FileExistsError):
        files.write_json(tmp_path / "a.json", 3)
    assert (tmp_path / "victim").read_text() == "kept"


def test_files_and_folders_are_on_the_disk_before_they_have_their_name(tmp_path, monkeypatch):
    synced, named = [], []
    path_of = "/proc/self/fd/{}".format
    monkeypatch.setattr(os, "fsync", lambda n: synced.append(Path(os.readlink(path_of(n)))))
    rename = os.rename
    monkeypatch.setattr(os, "rename", lambda a, b: named.extend(synced) or rename(a, b))
    with files.whole_folder(tmp_path / "made") as made:
        (made / "inner").mkdir()
        (made / "inner" / "file").write_text("x")
    before = {str(path.relative_to(made)) for path in named}
    assert before == {".", "inner", "inner/file"} and synced[-1] == tmp_path
    for name in (None, "file"):  # None: of a full disk
        with pytest.raises(OSError) as caught, files.whole_folder(tmp_path / "full") as made:
            raise OSError(errno.ENOSPC, "No space left", name and str(made / name))
        assert caught.value.filename == str(tmp_path / "full")
    files.write_json(tmp_path / "a.json", 1)
    assert synced[-2].suffix == ".tmp" and synced[-1] == tmp_path


def test_on_windows(tmp_path, monkeypatch):
    """fsync fails on a file that is open for reading, and an open file cannot be removed."""
    monkeypatch.setattr(os, "fsync", mock.Mock(side_effect=OSError(errno.EBADF, "Bad file")))
    with pytest.raises(OSError, match="Bad file"):
        files.write_json(tmp_path / "a.json", 1)
    monkeypatch.setattr(files, "fcntl", None)
    files.write_json(tmp_path / "a.json", 1)
    assert files.read_json(tmp_path / "a.json") == 1
    monkeypatch.setattr(os, "remove", mock.Mock(side_effect=PermissionError))
    with pytest.raises(UserError, match="a bad line"), files.lock_file(tmp_path / "out"):
        raise UserError("a bad line")


def test_outputs_that_are_refused(tmp_path, monkeypatch):
    (tmp_path / "in").write_text("kept")
    (tmp_path / "same").symlink_to("in")
    for path, said in (
        (tmp_path / "same", "same is an input"),
        ("/dev/null", "/dev/null is not a regular file"),
        ("/proc/self/environ", "is not a regular file"),  # though it is one
    ):
        with pytest.raises(UserError, match=said):
            files.check_output(path, tmp_path / "gone", tmp_path / "in")
    files.check_output(tmp_path / "new")
    check = "python -c 'from resmlp_mt_runtime.files import *; check_output("
    for words, status in (
        ('"-", "in")\' >> in', 1),
        ('"-", "-")\' >> in < in', 1),
        ('"in", "-")\' < same', 1),
        ('"in", "-")\' < /dev/null', 0),
        ('"-", "-")\' < /dev/null > /dev/null', 0),  # as of a terminal
        ('"-", "-")\' <&-', 0),
    ):
        done = shell(f"{check}{words}", tmp_path)
        assert (done.returncode, "is an input: choose" in done.stderr) == (status, status == 1)
    assert (tmp_path / "in").read_text() == "kept"
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # whoever runs this
    with pytest.raises(UserError, match="in: cannot write in the folder .*: choose another"):
        files.check_output(tmp_path / "in")


def test_a_second_process_is_refused_and_a_killed_one_lets_go(tmp_path, monkeypatch):
    folder, log = tmp_path / "folder", tmp_path / "log"

    def hold():
        with files.lock(folder):
            print("held")
            time.sleep(600)

    monkeypatch.setattr(files, "GRACE", 0)
    other = Forked(hold, log)
    other.until(lambda text: "held" in text)
    said = f"another process is working in {folder}"
    with pytest.raises(UserError, match=said), files.lock(folder):
        pass
    other.kill()
    monkeypatch.setattr(files, "GRACE", 10)
    with files.lock(folder):
        monkeypatch.setattr(files, "GRACE", 0)
        assert Forked(hold, log).wait() == 1 and "another process is working" in log.read_text()


def test_a_file_that_is_gone_hides_no_stop(tmp_path):
    with pytest.raises(KeyboardInterrupt), files.lock_file(tmp_path / "out"):
        (tmp_path / "out").unlink()
        raise KeyboardInterrupt


def test_a_record_of_the_source_counts_as_long_as_the_file_is_there(tmp_path):
    path = tmp_path / "out"
    files.record_source(path, {"text": "0f"})
    assert files.source_of(path) is None
    path.touch()
    assert files.source_of(path) == {"text": "0f"} and files.source_of(tmp_path / "other") is None
    for wrong in ('{"made_from": 5}', '["x"]', "[" * 100_000, "{"):
        (tmp_path / ".out.source").write_text(wrong)
        with pytest.raises(UserError, match=f"^{tmp_path}/.out.source"):
            files.source_of(path)
