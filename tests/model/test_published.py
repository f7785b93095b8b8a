"""Published models by name: fetched, checked, kept. Checkpoints of earlier versions load."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq.sequence_generator import SequenceGeneratorWithAlignment
from fairseq_programs import ROOT, load
from helpers import FIXTURES, pad_batch, shift

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


def test_a_model_is_fetched_once(home, tmp_path):
    """By its name in Python, and by torch.hub. The length penalty is that of its folder."""
    model = ResMLPModel.from_pretrained(NAME)
    assert model.translate("I like tea.", beam=4) == "Ich mag Tee."
    shutil.rmtree(home)
    (search,) = tmp_path.rglob("cache/**/search.json")
    search.write_text('{"lenpen": 1.25}')
    again = torch.hub.load(str(ROOT), NAME, source="local")
    assert again.translate("I like tea.", beam=4) == "Ich mag Tee."
    assert again.cfg.generation.lenpen == 1.25


def test_other_files_are_refused_and_not_kept(home, tmp_path):
    path = home / hub.FOLDERS[NAME] / "spm.model"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    for said in ("invalid hash value", "No such file"):
        with pytest.raises(UserError, match=f"^{NAME}: file:.*spm.model: .*{said}[^\\n]*$"):
            ResMLPModel.from_pretrained(NAME)
        assert not list((tmp_path / "cache").rglob("spm.model*"))
        path.unlink(missing_ok=True)


KEPT = json.loads((FIXTURES / "answers.json").read_text())["answers"]


@torch.no_grad()
def answers(path: Path):
    """Log-probabilities at every target position, and the best four translations of each source."""
    (model,), cfg, task = load_model_ensemble_and_task([str(path)], {"data": str(FIXTURES)})
    model.eval()
    dictionary = task.source_dictionary
    sources, targets = (
        [dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
        for lines in (["a b c", "e d", "c a d b e a d"], ["c a", "b e d a", "d"])
    )
    lengths = torch.tensor(list(map(len, sources)))
    batch = {"src_tokens": pad_batch(sources, dictionary, left=True), "src_lengths": lengths}
    logits = model(**batch, prev_output_tokens=pad_batch(list(map(shift, targets)), dictionary))
    rows = model.get_normalized_probs(logits, log_probs=True)
    rows = torch.cat([rows[i, : len(target)] for i, target in enumerate(targets)])
    model.prepare_for_inference_(cfg)
    search = SequenceGeneratorWithAlignment([model], dictionary, beam_size=4, max_len_b=8)
    return rows, search.generate([model], {"net_input": batch})


@pytest.mark.parametrize("layout", KEPT)
def test_an_old_checkpoint_computes_what_it_did(layout):
    rows, translations = answers(FIXTURES / f"{layout}.pt")
    near = dict(rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(rows, torch.tensor(KEPT[layout]["log_probabilities"]), **near)
    for now, before in zip(translations, KEPT[layout]["translations"], strict=True):
        assert [h["tokens"].tolist() for h in now] == [h["tokens"] for h in before]
        scores = torch.stack([h["score"] for h in now])
        torch.testing.assert_close(scores, torch.tensor([h["score"] for h in before]), **near)


def test_the_optimizers_state_fits():
    """So training continues from an old checkpoint: the state goes by the order of parameters."""
    path = FIXTURES / "linear.pt"
    (model,), _, _ = load_model_ensemble_and_task([str(path)], {"data": str(FIXTURES)})
    checkpoint = load(path)
    assert list(checkpoint["model"]) == list(model.state_dict())
    sums = checkpoint["last_optimizer_state"]["state"]
    for number, parameter in enumerate(model.parameters()):
        assert sums[number]["sum"].shape == parameter.shape
