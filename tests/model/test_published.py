"""Published models by name: fetched, checked, kept."""

import shutil
from pathlib import Path

import pytest
import torch
from fairseq_programs import ROOT

from resmlp_mt import ResMLPModel
from resmlp_mt.model import hub
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.lines import sha256_of

NAME = "resmlp_mt.en-de"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A copy of the published files on this machine, and an empty cache."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "cache"))
    home = tmp_path / "home"
    for folder in hub.FOLDERS.values():
        shutil.copytree(ROOT / folder, home / folder)
    monkeypatch.setattr(hub, "HOME", home.as_uri())
    return home


def test_the_list_has_the_files_of_the_repository():
    """After other models: sha256sum FILES > published.sha256, as CONTRIBUTING.md says."""
    lines = [line.split() for line in hub.PUBLISHED.read_text(encoding="utf-8").splitlines()]
    assert [(sha256_of(ROOT / path), path) for _, path in lines] == list(map(tuple, lines))
    for folder in hub.FOLDERS.values():
        names = {path.name for path in (ROOT / folder).iterdir()} - {"README.md"}
        assert {Path(path).name for _, path in lines if Path(path).parent == Path(folder)} == names


def test_a_model_is_fetched_once(home):
    """By its name in Python, and by torch.hub."""
    model = ResMLPModel.from_pretrained(NAME)
    assert model.translate("I like tea.", beam=4) == "Ich mag Tee."
    shutil.rmtree(home)
    again = torch.hub.load(str(ROOT), NAME, source="local")
    assert again.translate("I like tea.", beam=4) == "Ich mag Tee."


def test_other_files_are_refused_and_not_kept(home, tmp_path):
    path = home / hub.FOLDERS[NAME] / "spm.model"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    for said in ("invalid hash value", "No such file"):
        with pytest.raises(UserError, match=f"^{NAME}: file:.*spm.model: .*{said}[^\\n]*$"):
            ResMLPModel.from_pretrained(NAME)
        assert not list((tmp_path / "cache").rglob("spm.model*"))
        path.unlink(missing_ok=True)
