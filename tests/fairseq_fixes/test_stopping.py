"""A training that is stopped saves and resumes as if never stopped; one that has ended stays so."""

import contextlib
import io
import math
import os
import shutil
import signal
import sys
import time
from unittest import mock

import fairseq_cli.train
import pytest
import torch
from fairseq.data import LanguagePairDataset
from fairseq.trainer import Trainer
from fairseq_programs import LAST, load, own_handlers, process, train, training, unlike, values
from processes import forked

from resmlp_mt.fairseq_fixes import trainings
from resmlp_mt_runtime.errors import UserError

UPDATES = 21  # eight an epoch
OPTIONS = ("--batch-size", 8, "--max-update", UPDATES, "--dropout", 0.1, "--save-interval", 2)
OPTIONS += ("--update-epoch-batch-itr", True)  # as in every recipe: exact resuming needs it


def updates(folder):
    return load(folder / LAST)["optimizer_history"][-1]["num_updates"]


@contextlib.contextmanager
def in_update(number, act):
    """*act* is called in update *number* of a training in the block."""
    step = Trainer.train_step

    def train_step(self, *args, **kwargs):
        if self.get_num_updates() == number - 1:
            act()
        return step(self, *args, **kwargs)

    with mock.patch.object(Trainer, "train_step", train_step):
        yield


def stopped(corpus, folder, number, update, *more):
    """Train until a signal comes in an update: the exit status and the log."""
    log = io.StringIO()
    with in_update(update, lambda: signal.raise_signal(number)), pytest.raises(SystemExit) as end:
        train(corpus.data, folder, *OPTIONS, *more, log=log)
    return end.value.code, log.getvalue()


@pytest.fixture(scope="module")
def alone(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    train(corpus.data, folder, *OPTIONS)
    return folder / LAST


def test_stopped_four_times(corpus, alone, tmp_path):
    """Within an epoch, at the end of one that is not saved, where it has been saved already, and in
    the last update, which ends it."""
    stops = ("SIGINT", 5, 130, 1), ("SIGTERM", 8, 143, 1), ("SIGUSR1", 16, 138, 2)
    for name, update, status, saved in stops:
        found, log = stopped(corpus, tmp_path, signal.Signals[name], update)
        assert found == status and updates(tmp_path) == update
        assert f"stopped at update {update}\n" in log
        assert log.count("Saved checkpoint") == saved
    with in_update(UPDATES, lambda: signal.raise_signal(signal.SIGTERM)):
        train(corpus.data, tmp_path, *OPTIONS)
    assert unlike(alone, tmp_path / LAST) == []


def test_a_signal_that_the_data_workers_get_too(corpus, tmp_path):
    """As from a terminal or Slurm, while the training waits for a batch, before a validation."""
    more = ("--max-update", 9999, "--num-workers", 1, "--validate-interval-updates", 1)
    words = training(corpus.data, tmp_path, *OPTIONS, *more)
    collate = LanguagePairDataset.collater
    slow = lambda *args, **kwargs: time.sleep(0.2) or collate(*args, **kwargs)  # noqa: E731
    with mock.patch.object(LanguagePairDataset, "collater", slow):
        process = forked("fairseq-train", words, tmp_path / "log")
    os.setpgid(process.pid, process.pid)
    process.until(lambda text: '"num_updates": "5"' in text)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM and updates(tmp_path) >= 5


def test_what_a_training_leaves(corpus, tmp_path):
    """Nothing: a notebook's next Ctrl-C is its own."""
    options = ("--batch-size", 8, "--max-update", 1)
    words = map(str, training(corpus.data, tmp_path, *options))
    handlers = lambda: list(map(signal.getsignal, trainings.SIGNALS))  # noqa: E731
    with own_handlers(io.StringIO()), mock.patch.object(sys, "argv", ["fairseq-train", *words]):
        before, during = handlers(), []
        with in_update(1, lambda: during.extend(handlers())):
            fairseq_cli.train.cli_main()
        assert handlers() == before != during and trainings.stop.time == math.inf


def test_a_second_ctrl_c_ends_at_once():
    stop = trainings._Stop()
    with own_handlers(io.StringIO()):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # as nohup may ask for
        stop.begin()
        assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
        signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGINT) == stop.receive  # PyTorch sends one to all processes
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
        stop.begin()  # as at each epoch
        assert stop.requests() == (signal.SIGTERM, 0)


def test_a_checkpoint_at_least_every_five_minutes(corpus, alone, tmp_path, monkeypatch):
    """A training that is killed resumes from there, and nothing else is different."""
    assert trainings.SAVE_EVERY <= 300
    monkeypatch.setattr(trainings, "SAVE_EVERY", 0)
    kill, times = mock.Mock(side_effect=GeneratorExit), []  # which nothing handles
    note = lambda: times.append(trainings.stop.time)  # noqa: E731
    with in_update(5, note), in_update(6, note), in_update(7, kill), pytest.raises(GeneratorExit):
        train(corpus.data, tmp_path, *OPTIONS)
    assert updates(tmp_path) == 6 and times[0] < times[1]  # it counts from the last one
    monkeypatch.undo()
    train(corpus.data, tmp_path, *OPTIONS)
    assert unlike(alone, tmp_path / LAST) == []


def test_a_metric_that_is_not_computed(corpus, alone, tmp_path):
    """After an epoch of updates, which are saved: with another metric it goes on from there."""
    with pytest.raises(UserError, match="--best-checkpoint-metric accuracy: validation does not"):
        train(corpus.data, tmp_path, *OPTIONS, "--best-checkpoint-metric", "accuracy")
    assert updates(tmp_path) == 8
    train(corpus.data, tmp_path, *OPTIONS)
    assert unlike(alone, tmp_path / LAST) == []


# at a rate of 0 the first validation stays the best on any CPU; 96 updates are twelve epochs
PATIENT = ("--batch-size", 8, "--lr", 0, "--patience", 3, "--max-update", 96)


@pytest.fixture(scope="module")
def ended(corpus, tmp_path_factory):
    """Its folder: stopped twice; validations 2, 3 and 4 were no better than the first."""
    folder = tmp_path_factory.mktemp("ended")
    for more in (("--max-epoch", 1), ("--max-epoch", 3), ()):
        train(corpus.data, folder, *PATIENT, *more)
    assert updates(folder) == 32
    return folder


def test_no_update_after_the_last(corpus, tmp_path):
    for most, made, left in ((5, 5, True), (5, 5, False), (3, 5, False), (6, 6, True)):
        log = train(corpus.data, tmp_path, "--batch-size", 8, "--max-update", most).log
        assert updates(tmp_path) == made and ("no update is left" in log) != left


def test_ended_is_not_trained_on(corpus, ended, tmp_path):
    """Nor by fairseq's file with a user's folder. More patience goes on from the stored count."""
    last = shutil.copy(ended / LAST, tmp_path)
    before = (tmp_path / LAST).read_bytes()
    words = (fairseq_cli.train.__file__, *training(corpus.data, tmp_path, *PATIENT))
    done = process(*words, "--user-dir", "examples/mixings")
    assert done.returncode == 0, done.stderr
    assert f"Loaded checkpoint {last}" in done.stdout and "early stop since" in done.stdout
    assert values(done.stdout, "loss") == [] and (tmp_path / LAST).read_bytes() == before
    train(corpus.data, tmp_path, *PATIENT, "--patience", 5)
    assert updates(tmp_path) == 48


def test_a_second_training_of_a_process_counts_anew(corpus, tmp_path):
    counted = {"best": 0.0, "num_runs": 3}  # as an early stop leaves it
    vars(fairseq_cli.train.should_stop_early).update(counted)
    train(corpus.data, tmp_path, *PATIENT, "--max-update", 2)
    assert updates(tmp_path) == 2


@pytest.mark.parametrize("name", ["reset-meters", "reset-optimizer", "restore-file", "none"])
def test_counts_from_0(corpus, ended, tmp_path, name):
    """``--patience``: where fairseq forgets the best loss, in another folder, without a count."""
    more = [f"--{name}"] if name != "none" else []
    if name == "restore-file":
        more += [ended / LAST]
    else:
        state = load(ended / LAST)
        state["extra_state"]["patience"] = {"best": 0.0, "num_runs": 3}
        if name == "none":
            del state["extra_state"]["patience"]
        torch.save(state, tmp_path / LAST)
    log = train(corpus.data, tmp_path, *PATIENT, *more).log
    assert len(values(log, "valid_loss")) == 4
