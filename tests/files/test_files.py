"""Atomic writes, locks, and records of what a result was made from."""

import os
import signal
import time
from pathlib import Path

import pytest
from processes import Forked

from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import (
    _own_name,
    check_output,
    lock,
    read_json,
    record_source,
    source_of,
    whole_file,
    whole_folder,
    write_json,
)


def test_what_a_dead_process_left_is_removed_and_a_living_one_s_is_not(tmp_path):
    path = tmp_path / "a.json"

    def killed():
        with whole_file(path) as temporary:
            temporary.write_text("x")
            os.kill(os.getpid(), signal.SIGKILL)

    dead = Forked(killed, tmp_path / "log")
    assert dead.wait() == -signal.SIGKILL
    (left,) = tmp_path.glob("a.json.*.tmp")
    living = left.with_name(left.name.replace(str(dead.pid), str(os.getppid())))
    living.touch()
    write_json(path, 1)
    assert set(tmp_path.iterdir()) == {path, living, tmp_path / "log"}


def test_links_under_a_temporary_name_are_not_followed(tmp_path, monkeypatch):
    (tmp_path / "victim").write_text("kept")
    name = _own_name(f"{tmp_path}/a.json")
    os.symlink("victim", name)
    write_json(tmp_path / "a.json", 1)
    assert read_json(tmp_path / "a.json") == 1
    os.symlink("victim", name)
    monkeypatch.setattr(
        "resmlp_mt_runtime.files._own_name", lambda path: name
    )  # put there just now
    with pytest.raises(FileExistsError):
        write_json(tmp_path / "a.json", 3)
    assert (tmp_path / "victim").read_text() == "kept"


def test_files_and_folders_are_on_the_disk_before_they_have_their_name(tmp_path, monkeypatch):
    synced, named = [], []
    path_of = "/proc/self/fd/{}".format
    monkeypatch.setattr(os, "fsync", lambda n: synced.append(Path(os.readlink(path_of(n)))))
    rename = os.rename
    monkeypatch.setattr(os, "rename", lambda a, b: named.extend(synced) or rename(a, b))
    with whole_folder(tmp_path / "made") as made:
        (made / "inner").mkdir()
        (made / "inner" / "file").write_text("x")
    before = {str(path.relative_to(made)) for path in named}
    assert before == {".", "inner", "inner/file"} and synced[-1] == tmp_path
    write_json(tmp_path / "a.json", 1)
    assert synced[-2].suffix == ".tmp" and synced[-1] == tmp_path


def test_outputs_that_are_refused(tmp_path):
    (tmp_path / "in").write_text("kept")
    (tmp_path / "same").symlink_to("in")
    for path, said in (
        (tmp_path / "same", "same is the input"),
        ("/dev/null", "/dev/null is not a regular file"),
        ("/proc/self/environ", "is not a regular file"),  # though it is one
    ):
        with pytest.raises(UserError, match=said):
            check_output(path, tmp_path / "gone", tmp_path / "in")
    check_output(tmp_path / "new")


def test_a_second_process_is_refused_and_a_killed_one_lets_go(tmp_path, monkeypatch):
    folder, log = tmp_path / "folder", tmp_path / "log"

    def hold():
        with lock(folder):
            print("held")
            time.sleep(600)

    monkeypatch.setattr("resmlp_mt_runtime.files.GRACE", 0)
    other = Forked(hold, log)
    other.until(lambda text: "held" in text)
    with pytest.raises(UserError, match=f"another process is working in {folder}"), lock(folder):
        pass
    other.kill()
    monkeypatch.setattr("resmlp_mt_runtime.files.GRACE", 10)
    with lock(folder):
        monkeypatch.setattr("resmlp_mt_runtime.files.GRACE", 0)
        assert Forked(hold, log).wait() == 1 and "another process is working" in log.read_text()


def test_a_record_of_the_source_counts_as_long_as_the_file_is_there(tmp_path):
    path = tmp_path / "out"
    record_source(path, {"text": "0f"})
    assert source_of(path) is None
    path.touch()
    assert source_of(path) == {"text": "0f"} and source_of(tmp_path / "other") is None
    for wrong in ('{"made_from": 5}', '["x"]', "[" * 100_000, "{"):
        (tmp_path / ".out.source").write_text(wrong)
        with pytest.raises(UserError, match=f"^{tmp_path}/.out.source"):
            source_of(path)
