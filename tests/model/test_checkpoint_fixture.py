"""Checkpoints kept in tests/fixtures: what users have saved still loads and answers the same."""

import json
import shutil

import pytest
import torch
from fairseq_programs import load, train
from kept_checkpoints import ANSWERS, FIXTURES, LAYOUTS, TINY, WHOLE, binarize, differences

from resmlp_mt.model.mixing_kinds import TOKEN_MIXING


@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_answers_as_when_it_was_made(layout):
    assert differences(FIXTURES, layout) == []


def test_every_layout_is_kept():
    kinds = {str(load(FIXTURES / f"{name}.pt")["cfg"]["model"].token_mixing) for name in LAYOUTS}
    assert kinds == set(TOKEN_MIXING)
    found = {path.stem: path.stat().st_size for path in FIXTURES.glob("*.pt")}
    assert set(found) == set(LAYOUTS) and max(found.values()) < 200_000
    assert set(json.loads((FIXTURES / ANSWERS).read_text())["answers"]) == set(found)


@pytest.mark.parametrize(
    "parameter", ["encoder.layers.0.token_mixing.mixing.weight", "decoder.embed_tokens.weight"]
)
def test_one_weight_that_is_another_is_told(tmp_path, parameter):
    shutil.copytree(FIXTURES, tmp_path, dirs_exist_ok=True)
    state = load(FIXTURES / f"{WHOLE}.pt")
    state["model"][parameter].flatten()[41].add_(0.01)
    torch.save(state, tmp_path / f"{WHOLE}.pt")
    assert any("log-probabilities differ by" in line for line in differences(tmp_path, WHOLE))


def test_training_goes_on_from_it(tmp_path):
    data = binarize(tmp_path)
    options = ("--restore-file", FIXTURES / f"{WHOLE}.pt", "--max-update", 4)
    said = train(data, tmp_path / "run", *TINY, *options).log
    assert f"Loaded checkpoint {FIXTURES / WHOLE}.pt (epoch" in said
    before, after = load(FIXTURES / f"{WHOLE}.pt"), load(tmp_path / "run" / "checkpoint_last.pt")
    updates = [state["optimizer_history"][-1]["num_updates"] for state in (before, after)]
    assert updates == [2, 4]
    assert before["model"].keys() == after["model"].keys()
