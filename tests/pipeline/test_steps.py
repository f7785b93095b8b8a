"""The steps of a folder: made once, resumed, bound to their options."""

from pathlib import Path
from unittest import mock

import pytest

from resmlp_mt.pipeline.steps import Steps
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import _own_name, read_json


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
        with mock.patch("os.getpid", return_value=10**8):  # there is no such process
            left = Path(_own_name(str(tmp_path / "one")))
        left.mkdir()  # as kill -9 leaves it
        write(left)
        steps.step("one", "first", lambda folder: found.extend(folder.iterdir()) or write(folder))
    assert found == [] and (tmp_path / "one" / "file").exists() and not left.exists()
    capsys.readouterr()
    with Steps(tmp_path, {"seed": 1}, 2, indent="  ") as steps:
        steps.step("one", "first", interrupted)
    assert capsys.readouterr().err == "  [1/2] first: done before\n"


def test_a_step_is_made_again_when_its_source_differs(tmp_path):
    made = []
    for source in ("a", "a", "b"):
        with Steps(tmp_path, {"seed": 1}, 1) as steps:
            steps.step("one", "first", lambda folder, s=source: made.append(s), {"from": source})
    assert made == ["a", "b"]


def test_other_options_are_refused_and_nothing_is_lost(tmp_path):
    with Steps(tmp_path, {"seed": 9}, 1):
        pass
    with Steps(tmp_path, {"seed": 1, "arch": "a"}, 1) as steps:  # nothing was made with the others
        steps.step("one", "first", write)
    said = "holds results made with seed = 1, not 2: choose another --out or delete"
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
    (tmp_path / "one").mkdir()
    write(tmp_path / "one")
    refused("holds folders of something else", tmp_path, {})
    (tmp_path / "manifest.json").write_text('{"seed": ')
    refused("manifest.json: not a JSON file", tmp_path, {})
    (tmp_path / "manifest.json").write_text('{"seed": ["x"]}')
    with pytest.raises(UserError, match="manifest.json is not as it was written"):
        Steps(tmp_path, {"seed": 1}, 1, grows="seed").__enter__()
    (tmp_path / "manifest.json").write_text('{"name": "a page", "icons": []}')
    refused("manifest.json is a file of another program", tmp_path, {"seed": 1})
    assert read_json(tmp_path / "manifest.json")["name"] == "a page"
