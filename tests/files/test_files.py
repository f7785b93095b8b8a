"""Files and the steps of a folder: whole or not at all, by one process at a time."""

import errno
import os
import signal
import tempfile
import time

import pytest
from processes import Forked

from resmlp_mt.errors import UserError
from resmlp_mt.files import Steps, check_output, lock, read_json, whole_file, write_json


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(KeyboardInterrupt), whole_file(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert read_json(path) == {"a": 1} and list(tmp_path.iterdir()) == [path]


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


def test_an_error_names_the_file_that_was_asked_for(tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "nowhere" / "a.json", tmp_path / "folder"):
        with pytest.raises(OSError) as error:
            write_json(path, 1)
        assert error.value.filename == str(path)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_outputs_that_are_refused(tmp_path):
    (tmp_path / "in").write_text("kept")
    (tmp_path / "same").symlink_to("in")
    for path, said in (
        (tmp_path / "same", "same is the input"),
        (tmp_path, "is a folder"),
        (tmp_path / "a" / "b", f"has no folder {tmp_path / 'a'}"),
        ("/dev/null", "/dev/null is not a regular file"),
        ("/proc/self/environ", "is not a regular file"),  # though it is one
    ):
        with pytest.raises(UserError, match=said):
            check_output(path, tmp_path / "gone", tmp_path / "in")
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        check_output(file.name)
    check_output(tmp_path / "new")


def test_a_second_process_is_refused_and_a_killed_one_lets_go(tmp_path, monkeypatch):
    folder, log = tmp_path / "folder", tmp_path / "log"

    def hold():
        with lock(folder):
            print("held")
            time.sleep(600)

    monkeypatch.setattr("resmlp_mt.files.GRACE", 0)
    other = Forked(hold, log)
    while not (log.exists() and log.read_text()):
        time.sleep(0.01)
    with pytest.raises(UserError, match=f"another process is working in {folder}"), lock(folder):
        pass
    other.kill()
    monkeypatch.setattr("resmlp_mt.files.GRACE", 10)
    with lock(folder):
        monkeypatch.setattr("resmlp_mt.files.GRACE", 0)
        assert Forked(hold, log).wait() == 1 and "another process is working" in log.read_text()


def refused(said, folder, options):
    with pytest.raises(UserError, match=said), Steps(folder, options, 1):
        pass


def write(folder):
    (folder / "file").touch()


def test_a_finished_step_is_reused_and_an_interrupted_one_made_again(tmp_path, capsys):
    def interrupted(folder):
        write(folder)
        raise KeyboardInterrupt

    found = []
    with Steps(tmp_path, {"seed": 1}, 2, indent="  ") as steps:
        with pytest.raises(KeyboardInterrupt):
            steps.step("one", "first", interrupted)
        assert not list(tmp_path.glob("one*"))
        (tmp_path / "one.partial").mkdir()  # as kill -9 leaves it
        write(tmp_path / "one.partial")
        steps.step("one", "first", lambda folder: found.extend(folder.iterdir()) or write(folder))
    assert found == [] and (tmp_path / "one" / "file").exists()
    capsys.readouterr()
    with Steps(tmp_path, {"seed": 1}, 2, indent="  ") as steps:
        steps.step("one", "first", interrupted)
    assert capsys.readouterr().err == "  [1/2] first: done before\n"


def test_a_full_disk_is_named_by_the_step(tmp_path):
    """What a write says without a file; a file that is named stays so."""

    def full(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *named)

    for named, said in (((), "one.partial"), (("elsewhere",), "elsewhere")):
        with Steps(tmp_path, {"seed": 1}, 1) as steps, pytest.raises(OSError) as caught:
            steps.step("one", "first", full)
        assert caught.value.filename == (said if named else str(tmp_path / said))
        assert not list(tmp_path.glob("one*"))


def test_other_options_are_refused_and_nothing_is_lost(tmp_path):
    with Steps(tmp_path, {"seed": 9}, 1):
        pass
    with Steps(tmp_path, {"seed": 1, "arch": "a"}, 1) as steps:  # nothing was made with the others
        steps.step("one", "first", write)
    said = "holds results made with seed = 1, not 2: choose another or delete it"
    refused(said, tmp_path, {"seed": 2, "arch": "a"})
    assert (tmp_path / "one").is_dir() and read_json(tmp_path / "manifest.json")["seed"] == 1


def test_a_folder_within_guards_itself(tmp_path):
    """Its text may be mended before a step of this one has finished."""
    for text in ("empty", "mended"):
        with Steps(tmp_path, {"text": text}, 1), Steps(tmp_path / "data", {"seed": 1}, 1) as within:
            within.step("one", "first", write)
    with Steps(tmp_path, {"text": "mended"}, 1) as steps:
        steps.step("one", "first", write)
    refused('text = "mended", not "other"', tmp_path, {"text": "other"})


def test_options_hold_from_the_first_checkpoint(tmp_path):
    training = tmp_path / "checkpoints"
    for rate in (1, 2):  # nothing was trained yet
        with Steps(tmp_path, {"lr": rate}, 1):
            training.mkdir(exist_ok=True)
            (training / "train.json").touch()
    (training / "checkpoint_last.pt").touch()
    with Steps(tmp_path, {"lr": 2}, 1):
        pass
    refused("lr = 2, not 3", tmp_path, {"lr": 3})


def test_folders_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    refused("choose a folder that can be written", tmp_path / "file" / "below", {})
    (tmp_path / "one").mkdir()
    write(tmp_path / "one")
    refused("holds folders of something else", tmp_path, {})
    (tmp_path / "manifest.json").write_text('{"seed": ')
    refused("manifest.json: not a JSON file", tmp_path, {})
    (tmp_path / "manifest.json").write_text('{"name": "a page", "icons": []}')
    refused("manifest.json is a file of another program", tmp_path, {"seed": 1})
    assert read_json(tmp_path / "manifest.json")["name"] == "a page"
