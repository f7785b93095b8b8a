"""A training that is asked to stop finishes its update, saves, and resumes as if never stopped."""

import contextlib
import io
import random
import signal
import time
from unittest import mock

import pytest
from fairseq.trainer import Trainer
from fairseq_programs import PACKAGE, call, load, own_handlers, train, training
from interrupting import LAST, unlike
from processes import forked, wait_for_update

from resmlp_mt.checkpoints import read_checkpoint
from resmlp_mt.fairseq_fixes import trainings

UPDATES = 21  # eight an epoch
OPTIONS = ("--batch-size", 8, "--max-update", UPDATES, "--dropout", 0.1, "--save-interval", 2)


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
        call("train", *training(corpus.data, folder, *OPTIONS, *more), log=log)
    return end.value.code, log.getvalue()


@pytest.fixture(scope="module")
def alone(corpus, tmp_path_factory):
    """The last checkpoint of a training that is left alone."""
    folder = tmp_path_factory.mktemp("alone")
    train(corpus.data, folder, *OPTIONS)
    return folder / LAST


def test_stopped_three_times(corpus, alone, tmp_path):
    """Within an epoch, at the end of one that is not saved, and where it has just been saved."""
    for name, update, status in (("SIGINT", 5, 130), ("SIGTERM", 8, 143), ("SIGUSR1", 16, 138)):
        found, log = stopped(corpus, tmp_path, signal.Signals[name], update)
        made = load(tmp_path / LAST)["optimizer_history"][-1]["num_updates"]
        assert found == status and made == update
        assert f"stopped by {name} at update {update}\n" in log
        assert log.count("Saved checkpoint") == 1
    train(corpus.data, tmp_path, *OPTIONS)
    assert unlike(alone, tmp_path / LAST) == []


def test_stopped_at_the_end_or_without_saving(corpus, alone, tmp_path):
    assert stopped(corpus, tmp_path, signal.SIGTERM, 3, "--no-save")[0] == 143
    assert not (tmp_path / LAST).exists()
    with in_update(UPDATES, lambda: signal.raise_signal(signal.SIGTERM)):
        train(corpus.data, tmp_path, *OPTIONS)
    assert unlike(alone, tmp_path / LAST) == []


def test_a_second_ctrl_c_ends_at_once():
    stop = trainings._Stop()
    with own_handlers(io.StringIO()):
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # as nohup may ask for
        stop.begin(object())
        assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
        signal.raise_signal(signal.SIGINT)
        assert stop.wishes() == (signal.SIGINT, 0)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_DFL
        signal.raise_signal(signal.SIGTERM)  # from a batch system: it is ending already
        assert stop.wishes() == (signal.SIGINT, 0)


def test_a_checkpoint_at_least_every_five_minutes(corpus, alone, tmp_path, monkeypatch):
    """A training that is killed resumes from there, and nothing else is different."""
    assert trainings.SAVE_EVERY <= 300
    monkeypatch.setattr(trainings, "SAVE_EVERY", 0)

    def kill():
        raise GeneratorExit  # nothing handles it

    with in_update(7, kill), pytest.raises(GeneratorExit):
        train(corpus.data, tmp_path, *OPTIONS)
    assert load(tmp_path / LAST)["optimizer_history"][-1]["num_updates"] == 6
    monkeypatch.undo()
    train(corpus.data, tmp_path, *OPTIONS)
    assert unlike(alone, tmp_path / LAST) == []


@pytest.mark.soak
def test_ten_kills(corpus, tmp_path, monkeypatch):
    """SIGKILL at random moments, saves among them: every checkpoint loads, and nothing else is
    different at the end."""
    options = (*OPTIONS, "--max-update", 60)
    train(corpus.data, tmp_path / "alone", *options)
    monkeypatch.setattr(trainings, "SAVE_EVERY", 0)
    draw, folder = random.Random(1), tmp_path / "killed"
    words = ("--user-dir", PACKAGE, *training(corpus.data, folder, *options))
    for kill in range(10):
        log = tmp_path / f"{kill}.log"
        process = forked("fairseq-train", words, log)
        wait_for_update(process, log, 4 * kill + 1)
        time.sleep(draw.uniform(0, 0.05))
        process.kill()
        assert process.wait() == -signal.SIGKILL
        assert all(read_checkpoint(path) for path in folder.glob("checkpoint*.pt"))
    train(corpus.data, folder, *options)
    assert unlike(tmp_path / "alone" / LAST, folder / LAST) == []
