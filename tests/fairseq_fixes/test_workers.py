"""Two processes that train together: the same as one, and neither waits for the dead."""

import signal
from unittest import mock

import pytest
import torch
from fairseq_programs import LAST, training, unlike, values
from processes import forked, together
from test_stopping import in_update

UPDATES = 12


def words(data, save_dir, *more):
    """13 batches an epoch, one of the two has one less; no dropout: both draw the same numbers."""
    options = ("--batch-size", 5, "--max-update", UPDATES, "--required-batch-size-multiple", 1)
    options += ("--save-interval-updates", 5, "--update-epoch-batch-itr", True)
    return training(data, save_dir, *options, *more)


@pytest.fixture(scope="module", autouse=True)
def six_digits():
    """Of each loss in a log, instead of three decimals. Forks have what is replaced here."""
    with mock.patch("fairseq.logging.meters.safe_round", lambda number, digits: float(number)):
        yield


def both_end(options, logs):
    with together(options, logs) as processes:
        for process in processes:
            process.ends_well()


def losses(log):
    return values(log.read_text(), "loss"), values(log.read_text(), "valid_loss")


@pytest.fixture(scope="module")
def two(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    both_end(words(corpus.data, folder), folder / "logs")
    return folder


def in_one(number):
    """A signal to one of two processes, in its update 8."""
    return in_update(8, lambda: torch.distributed.get_rank() and signal.raise_signal(number))


def alone(corpus, folder):
    """The log of one process that trains in a folder with twice the update-freq."""
    log = folder / "alone.log"
    options = words(corpus.data, folder, "--update-freq", 2)
    forked("fairseq-train", options, log).ends_well()
    return log


def test_two_processes_train_like_one(corpus, two, tmp_path):
    one = losses(alone(corpus, tmp_path))
    for found, other, count in zip(one, losses(two / "logs" / "0.log"), (UPDATES, 4)):
        assert found == pytest.approx(other, rel=0, abs=1e-4) and len(found) == count
        assert any(abs(loss - round(loss, 3)) > 1e-4 for loss in found)  # more than 3 decimals


def test_a_worker_that_dies(corpus, two, tmp_path):
    """The other ends with an error; the same command resumes."""
    options, logs = words(corpus.data, tmp_path), tmp_path / "logs"
    with in_one(signal.SIGKILL), together(options, logs) as processes:
        assert [process.wait() for process in processes] == [1, -signal.SIGKILL]
    both_end(options, tmp_path / "again")
    assert "Loaded checkpoint" in (tmp_path / "again" / "0.log").read_text()
    assert unlike(two / LAST, tmp_path / LAST) == []


def test_another_number_of_processes(corpus, two, tmp_path):
    """A signal to one process stops both at the same update; one process resumes there."""
    logs = tmp_path / "first"
    with in_one(signal.SIGTERM), together(words(corpus.data, tmp_path), logs) as processes:
        assert {process.wait() for process in processes} == {128 + signal.SIGTERM}
    assert "stopped at update 8\n" in (logs / "0.log").read_text()
    log = alone(corpus, tmp_path)
    assert "@ 8 updates" in log.read_text()
    for found, expected in zip(losses(log), losses(two / "logs" / "0.log")):
        assert found == pytest.approx(expected[-len(found) :], abs=1e-4)
