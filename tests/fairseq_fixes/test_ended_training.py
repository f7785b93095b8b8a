"""A training with ``--patience`` that is stopped and resumed, and trainings that have ended."""

import shutil

import pytest
import torch
from fairseq_programs import PACKAGE, load, process, refusal, train, training, values

LAST = "checkpoint_last.pt"
# no update moves a weight: the first validation stays the best on any CPU. There are eight updates
# an epoch, and none after the twelfth epoch if nothing ends the training
OPTIONS = ("--batch-size", 8, "--lr", 0, "--patience", 3, "--max-update", 96)


def updates(folder):
    return load(folder / LAST)["optimizer_history"][-1]["num_updates"]


@pytest.fixture(scope="module")
def ended(corpus, tmp_path_factory):
    """Its folder: it was stopped twice, and the validations of epochs 2, 3 and 4 were no better
    than the first."""
    folder = tmp_path_factory.mktemp("ended")
    for more in (("--max-epoch", 1), ("--max-epoch", 3), ()):
        train(corpus.data, folder, *OPTIONS, *more)
    assert updates(folder) == 32
    return folder


def test_no_update_after_the_last(corpus, tmp_path):
    for most, made in ((5, 5), (5, 5), (3, 5), (6, 6)):
        log = train(corpus.data, tmp_path, "--batch-size", 8, "--max-update", most).log
        assert updates(tmp_path) == made
    assert "no update is left" not in log
    log = train(corpus.data, tmp_path, "--batch-size", 8, "--stop-time-hours", 1e-9).log
    assert updates(tmp_path) == made and "no time is left: " in log


def test_ended_is_not_trained_on(corpus, ended, tmp_path):
    """As torchrun starts it. More patience trains on from the count that there was."""
    last = shutil.copy(ended / LAST, tmp_path)
    before = (tmp_path / LAST).read_bytes()
    words = ("-m", "fairseq_cli.train", *training(corpus.data, tmp_path, *OPTIONS))
    done = process(*words, "--user-dir", PACKAGE)
    assert done.returncode == 0, done.stderr
    assert f"Loaded checkpoint {last}" in done.stdout and "early stop since" in done.stdout
    assert values(done.stdout, "loss") == [] and (tmp_path / LAST).read_bytes() == before
    train(corpus.data, tmp_path, *OPTIONS, "--patience", 5)
    assert updates(tmp_path) == 48


@pytest.mark.parametrize(
    "name", ["reset-meters", "reset-optimizer", "finetune-from-model", "restore-file", "none"]
)
def test_counts_from_0(corpus, ended, tmp_path, name):
    """Where fairseq forgets the best validation, in another folder, from a file without a count."""
    more = [f"--{name}"] if name != "none" else []
    if name in ("finetune-from-model", "restore-file"):
        more += [ended / LAST]
    else:
        save_count(ended, tmp_path, {"best": 0.0, "num_runs": 3} if more else None)
    log = train(corpus.data, tmp_path, *OPTIONS, *more).log
    assert len(values(log, "valid_loss")) == 4


def save_count(ended, folder, count):
    state = load(ended / LAST)
    state["extra_state"]["patience"] = count
    if count is None:
        del state["extra_state"]["patience"]
    torch.save(state, folder / LAST)


@pytest.mark.parametrize("count", ["x", {"best": "x", "num_runs": 1}, {"best": 1.0}])
def test_a_count_that_is_none(corpus, ended, tmp_path, count):
    save_count(ended, tmp_path, count)
    said = refusal("train", *training(corpus.data, tmp_path, *OPTIONS))
    assert said.startswith(f"{tmp_path / LAST} has an invalid count for --patience")
