"""A results folder: steps are reused when finished, and never found half done."""

import pytest

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.errors import UserError
from resmlp_mt.files import Workdir, read_json


def test_a_finished_step_is_reused(tmp_path, capsys):
    calls = []
    for _ in range(2):
        workdir = Workdir(tmp_path / "out", {"seed": 1}, 1)
        folder = workdir.step("one", "first", lambda path: calls.append(path))
    assert len(calls) == 1 and folder.is_dir()
    assert "[1/1] first: done before, reused" in capsys.readouterr().out


@pytest.mark.parametrize("resumable", [False, True])
def test_an_interrupted_step_is_not_taken_for_finished(tmp_path, resumable):
    def interrupted(folder):
        (folder / "half").write_text("written")
        raise KeyboardInterrupt

    found = []
    workdir = Workdir(tmp_path, {}, 1)
    with pytest.raises(KeyboardInterrupt):
        workdir.step("one", "first", interrupted, resumable)
    assert not (tmp_path / "one").exists()
    workdir.step("one", "first", lambda folder: found.extend(folder.iterdir()), resumable)
    assert [path.name for path in found] == (["half"] if resumable else [])


def test_other_options_are_refused_and_nothing_is_lost(tmp_path):
    Workdir(tmp_path, {"seed": 1, "arch": "a"}, 1).step("one", "first", lambda folder: None)
    with pytest.raises(UserError, match="made with seed = 1, not 2"):
        Workdir(tmp_path, {"seed": 2, "arch": "a"}, 1)
    assert (tmp_path / "one").is_dir() and read_json(tmp_path / "manifest.json")["seed"] == 1


def test_options_may_change_until_a_step_has_finished(tmp_path):
    def fail(folder):
        raise UserError("--vocab-size 9000 is too much")

    with pytest.raises(UserError):
        Workdir(tmp_path, {"vocab_size": 9000}, 1).step("one", "first", fail)
    Workdir(tmp_path, {"vocab_size": 90}, 1).step("one", "first", lambda folder: None)
    assert read_json(tmp_path / "manifest.json") == {"vocab_size": 90}


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="choose a folder that can be written"):
        Workdir(tmp_path / "file" / "below", {}, 1)


def test_a_damaged_manifest_is_named(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "manifest.json").write_text('{"seed": ')
    with pytest.raises(UserError, match="manifest.json: not a JSON file"):
        Workdir(tmp_path, {}, 1)


@pytest.mark.parametrize(
    "error, status, said",
    [
        (UserError("file x, line 3: bad"), 1, "error: file x, line 3: bad"),
        (PermissionError(13, "Permission denied", "y"), 1, "error: y: Permission denied"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_how_a_command_ends(error, status, said, capsys):
    def main():
        raise error

    assert run_main(main) == status
    printed = capsys.readouterr().err
    assert said in printed and "Traceback" not in printed


def test_other_options_do_not_go_on_from_a_checkpoint(tmp_path):
    """A training that was stopped has nothing but its partial folder."""
    partial = tmp_path / "train.partial"
    partial.mkdir()
    Workdir(tmp_path, {"lr": 1}, 1)
    Workdir(tmp_path, {"lr": 2}, 1)  # nothing was trained yet
    (partial / "checkpoint_last.pt").write_bytes(b"")
    Workdir(tmp_path, {"lr": 2}, 1)
    with pytest.raises(UserError, match="lr = 2, not 3"):
        Workdir(tmp_path, {"lr": 3}, 1)
