"""Checkpoints of earlier versions, in tests/fixtures, load and compute the same."""

import json
from pathlib import Path

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from fairseq_programs import load
from helpers import FIXTURES, pad_batch, shift, translate

KEPT = json.loads((FIXTURES / "answers.json").read_text())["answers"]
SOURCES = ["a b c", "e d", "c a d b e a d"]
TARGETS = ["c a", "b e d a", "d"]


@torch.no_grad()
def answers(path: Path):
    """Log-probabilities at every target position, and the best four translations of each source."""
    (model,), cfg, task = load_model_ensemble_and_task([str(path)], {"data": str(FIXTURES)})
    model.eval()
    dictionary = task.source_dictionary
    sources, targets = (
        [dictionary.encode_line(line, add_if_not_exist=False).long() for line in lines]
        for lines in (SOURCES, TARGETS)
    )
    logits = model(
        pad_batch(sources, dictionary, left=True),
        torch.tensor([len(source) for source in sources]),
        pad_batch([shift(target) for target in targets], dictionary),
    )
    rows = model.get_normalized_probs(logits, log_probs=True)
    rows = torch.cat([rows[i, : len(target)] for i, target in enumerate(targets)])
    model.prepare_for_inference_(cfg)
    return rows, translate(model, dictionary, sources, max_len=8)


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
