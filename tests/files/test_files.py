"""Files are written whole, by one process at a time; a folder's steps are reused when finished."""

import subprocess
import sys
import tempfile

import pytest

from resmlp_mt.errors import UserError
from resmlp_mt.files import (
    ResultsFolder,
    check_output,
    lock,
    read_json,
    whole_file,
    write_json,
)

HOLD = "import sys; from resmlp_mt.files import lock\nwith lock('{}'): print(1, flush=True); {}"
GRACE = "resmlp_mt.files.GRACE"


def refused(said, folder, options):
    with pytest.raises(UserError, match=said), ResultsFolder(folder, options, 1):
        pass


def test_a_file_is_whole_or_as_it_was(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(KeyboardInterrupt), whole_file(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert read_json(path) == {"a": 1} and list(tmp_path.iterdir()) == [path]


def test_what_a_dead_process_left_is_removed_and_a_living_one_s_is_not(tmp_path):
    path = tmp_path / "a.json"
    killed = (
        "import os, signal, sys; from resmlp_mt.files import whole_file\n"
        f"with whole_file({str(path)!r}) as t: t.write_text('x'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", killed])
    assert len(list(tmp_path.glob("a.json.*.tmp"))) == 1
    living = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with whole_file(path) as temporary:
        name = temporary.name.split(".")
        others = path.with_name(".".join([*name[:-2], str(living.pid), "tmp"]))
        others.write_text("")
        temporary.write_text("new")
    write_json(path, 1)
    assert set(tmp_path.iterdir()) == {path, others}
    living.communicate(b"\n")


def test_an_error_names_the_file_that_was_asked_for(tmp_path):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "nowhere" / "a.json", tmp_path / "folder"):
        with pytest.raises(OSError) as error:
            write_json(path, 1)
        assert error.value.filename == str(path)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_an_output_that_is_an_input(tmp_path):
    (tmp_path / "in").write_text("kept")
    (tmp_path / "same").symlink_to("in")
    with pytest.raises(UserError, match="same is the input"):
        check_output(tmp_path / "same", tmp_path / "gone", tmp_path / "in")


def test_outputs_that_could_not_be_written(tmp_path):
    for path, said in (
        (tmp_path, "is a folder"),
        (tmp_path / "a" / "b", f"has no folder {tmp_path / 'a'}"),
        ("/dev/null", "/dev/null is not a regular file"),
        ("/proc/self/environ", "is not a regular file"),  # though it is one
    ):
        with pytest.raises(UserError, match=said):
            check_output(path)
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        check_output(file.name)
    check_output(tmp_path / "new")


def test_a_second_process_is_refused_and_a_killed_one_lets_go(tmp_path, monkeypatch):
    monkeypatch.setattr(GRACE, 0)
    command = [sys.executable, "-c", HOLD.format(tmp_path, "input()")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"1\n"
        refused(f"another process is working in {tmp_path}", tmp_path, {})
        other.kill()
    monkeypatch.setattr(GRACE, 10)
    with lock(tmp_path), lock(tmp_path):  # one process may hold it twice
        command = [sys.executable, "-c", HOLD.format(tmp_path, "pass")]
        said = subprocess.run(command, capture_output=True, text=True)
        assert "another process is working in" in said.stderr


def test_a_finished_step_is_reused(tmp_path, capsys):
    calls = []
    for _ in range(2):
        with ResultsFolder(tmp_path / "out", {"seed": 1}, 1) as results:
            folder = results.step("one", "first", lambda path: calls.append(path))
    assert len(calls) == 1 and folder.is_dir()
    assert "[1/1] first: done before, reused" in capsys.readouterr().err


@pytest.mark.parametrize("resumable", [False, True])
def test_an_interrupted_step_is_not_taken_for_finished(tmp_path, resumable):
    def interrupted(folder):
        (folder / "half").write_text("written")
        raise KeyboardInterrupt

    found = []
    with ResultsFolder(tmp_path, {}, 1) as results:
        with pytest.raises(KeyboardInterrupt):
            results.step("one", "first", interrupted, resumable)
        assert not (tmp_path / "one").exists()
        assert (tmp_path / "one.partial").exists() == resumable
        results.step("one", "first", lambda folder: found.extend(folder.iterdir()), resumable)
    assert [path.name for path in found] == (["half"] if resumable else [])


def test_other_options_are_refused_and_nothing_is_lost(tmp_path):
    with ResultsFolder(tmp_path, {"seed": 1, "arch": "a"}, 1) as results:
        results.step("one", "first", lambda folder: None)
    refused("made with seed = 1, not 2", tmp_path, {"seed": 2, "arch": "a"})
    assert (tmp_path / "one").is_dir() and read_json(tmp_path / "manifest.json")["seed"] == 1


def test_options_may_change_until_a_step_has_finished(tmp_path):
    def fail(folder):
        raise UserError("--vocab-size 9000 is too much")

    with pytest.raises(UserError), ResultsFolder(tmp_path, {"vocab_size": 9000}, 1) as results:
        results.step("one", "first", fail)
    with ResultsFolder(tmp_path, {"vocab_size": 90}, 1) as results:
        results.step("one", "first", lambda folder: None)
    assert read_json(tmp_path / "manifest.json") == {"vocab_size": 90}


def test_a_results_folder_within_guards_itself(tmp_path):
    """Its text may be mended before a step of this one has finished."""
    for text in ("empty", "mended"):
        with (
            ResultsFolder(tmp_path, {"text": text}, 1),
            ResultsFolder(tmp_path / "data", {"seed": 1}, 1),
        ):
            pass
    with ResultsFolder(tmp_path, {"text": "mended"}, 1) as results:
        results.step("one", "first", lambda folder: None)
    refused('text = "mended", not "other"', tmp_path, {"text": "other"})


def test_other_options_do_not_resume_from_a_checkpoint(tmp_path):
    """A training that was stopped has nothing but its partial folder."""
    partial = tmp_path / "train.partial"
    for rate in (1, 2):  # nothing was trained yet
        with ResultsFolder(tmp_path, {"lr": rate}, 1):
            partial.mkdir(exist_ok=True)
    (partial / "checkpoint_last.pt").write_bytes(b"")
    with ResultsFolder(tmp_path, {"lr": 2}, 1):
        pass
    refused("lr = 2, not 3", tmp_path, {"lr": 3})


def test_folders_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("")
    refused("choose a folder that can be written", tmp_path / "file" / "below", {})
    (tmp_path / "one").mkdir()
    refused("holds folders of something else", tmp_path, {})
    (tmp_path / "manifest.json").write_text('{"seed": ')
    refused("manifest.json: not a JSON file", tmp_path, {})
    other = tmp_path / "other"
    other.mkdir()
    (other / "manifest.json").write_text('{"name": "a page", "icons": []}')
    refused("manifest.json is a file of another program", other, {"seed": 1})
    assert read_json(other / "manifest.json")["name"] == "a page"
