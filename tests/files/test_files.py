"""Files are written whole, by one process at a time."""

import subprocess
import sys
import tempfile

import pytest

from resmlp_mt.errors import UserError
from resmlp_mt.files import check_output, lock, read_json, whole_file, write_json

HOLD = "import sys; from resmlp_mt.files import lock\nwith lock('{}'): print(1, flush=True); {}"


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
    monkeypatch.setattr("resmlp_mt.files.GRACE", 0)
    command = [sys.executable, "-c", HOLD.format(tmp_path, "input()")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"1\n"
        with (
            pytest.raises(UserError, match=f"another process is working in {tmp_path}"),
            lock(tmp_path),
        ):
            pass
        other.kill()
    monkeypatch.setattr("resmlp_mt.files.GRACE", 10)
    with lock(tmp_path), lock(tmp_path):  # one process may hold it twice
        command = [sys.executable, "-c", HOLD.format(tmp_path, "pass")]
        said = subprocess.run(command, capture_output=True, text=True)
        assert "another process is working in" in said.stderr
