"""Two processes that train, or translate, together: the same as one, and neither waits for the
dead."""

import re
import signal
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq.distributed import utils
from fairseq_programs import assert_same_hypotheses, generate, hypotheses, training, values
from interrupting import LAST, unlike
from omegaconf import OmegaConf
from processes import Forked, forked, together, wait_for_update

from resmlp_mt.fairseq_fixes.errors_and_noise import explain

MEASURED = Path(__file__).with_name("measured")  # a --user-dir
UPDATES = 12


def words(data, save_dir, *more):
    """A training of 13 batches an epoch: the second process has one less.

    Without dropout: processes that train together draw the same random numbers.
    """
    return training(
        *(data, save_dir, "--user-dir", MEASURED, "--batch-size", 5, "--max-update", UPDATES),
        *("--required-batch-size-multiple", 1, "--save-interval-updates", 5, *more),
    )


def both_end(program, options, logs):
    with together(program, options, logs) as processes:
        assert [process.wait() for process in processes] == [0, 0], (logs / "0.log").read_text()


def losses(log):
    """Of every update and of every validation."""
    return values(log.read_text(), "loss"), values(log.read_text(), "valid_loss")


@pytest.fixture(scope="module")
def runs(corpus, tmp_path_factory):
    """Trainings by ``one`` process and by ``two``: folders of checkpoints, and logs."""
    one, two = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    single = words(corpus.data, one, "--update-freq", 2)
    assert forked("fairseq-train", single, one / "0.log").wait() == 0
    both_end("fairseq-train", words(corpus.data, two), two / "logs")
    return SimpleNamespace(two=two, log_one=one / "0.log", log_two=two / "logs" / "0.log")


def test_two_processes_train_like_one_with_twice_the_update_freq(runs):
    for one, two, count in zip(losses(runs.log_one), losses(runs.log_two), (UPDATES, 4)):
        assert one == pytest.approx(two, rel=0, abs=1e-4) and len(one) == count
        assert any(abs(loss - round(loss, 3)) > 1e-4 for loss in one)  # more than 3 decimals


def test_a_worker_that_dies(corpus, runs, tmp_path):
    """The other ends with an error; the same command resumes."""
    options, logs = words(corpus.data, tmp_path), tmp_path / "logs"
    with together("fairseq-train", options, logs) as processes:
        wait_for_update(processes[0], logs / "0.log", 7)
        processes[1].kill()
        assert processes[0].wait() == 1
    said = (logs / "0.log").read_text().strip().splitlines()[-1]
    message = explain(RuntimeError(said.partition("RuntimeError: ")[2]))
    assert message.startswith("another process of this run has ended (Connection ")
    both_end("fairseq-train", options, tmp_path / "again")
    assert "Loaded checkpoint" in (tmp_path / "again" / "0.log").read_text()
    assert unlike(runs.two / LAST, tmp_path / LAST) == []


@pytest.mark.parametrize("after", [pytest.param(2, marks=pytest.mark.soak), 1])
def test_another_number_of_processes(corpus, runs, tmp_path, after):
    """A signal to one process stops both at the same update; as many or one resumes there."""
    logs, then = tmp_path / "first", tmp_path / "then"
    with together("fairseq-train", words(corpus.data, tmp_path), logs) as processes:
        wait_for_update(processes[0], logs / "0.log", 7)
        processes[1].terminate()
        assert {process.wait() for process in processes} == {128 + signal.SIGTERM}
    (stopped,) = re.findall(r"stopped by SIGTERM at update (\d+)", (logs / "0.log").read_text())
    if after == 2:
        both_end("fairseq-train", words(corpus.data, tmp_path), then)
        assert unlike(runs.two / LAST, tmp_path / LAST) == []
    else:
        then.mkdir()
        options = words(corpus.data, tmp_path, "--update-freq", 2)
        assert forked("fairseq-train", options, then / "0.log").wait() == 0
    assert f"@ {stopped} updates" in (then / "0.log").read_text()
    for found, expected in zip(losses(then / "0.log"), losses(runs.log_two)):
        assert found == pytest.approx(expected[-len(found) :], abs=1e-4)


def test_a_checkpoint_is_broadcast(tmp_path):
    """Its options are in a DictConfig, which PyTorch's weights-only loader refuses."""
    weights = {"w": torch.arange(3.0), "half": torch.ones(2).half()}
    sent = {"cfg": OmegaConf.create({"a": {"b": [1]}}), "args": Namespace(x=1), "model": weights}

    def join(rank):
        method = f"file://{tmp_path / 'store'}"
        torch.distributed.init_process_group("gloo", method, rank=rank, world_size=2)
        group = torch.distributed.group.WORLD
        got = utils.broadcast_object(sent if rank == 0 else None, 0, group, torch.device("cpu"))
        assert got["cfg"] == sent["cfg"] and got["args"] == sent["args"]
        assert all(torch.equal(got["model"][name], w) for name, w in weights.items())

    processes = [Forked(lambda rank=rank: join(rank), tmp_path / f"{rank}") for rank in range(2)]
    assert [process.wait() for process in processes] == [0, 0], (tmp_path / "1").read_text()


def test_two_processes_translate_like_one(corpus, trained, tmp_path):
    """Each takes its share of the sentences."""
    whole = hypotheses(generate(corpus.data, trained.path, "--batch-size", 2))
    options = (corpus.data, "--user-dir", MEASURED, "--path", trained.path, "--beam", 4)
    options += ("--cpu", "--num-workers", 0, "--batch-size", 2)
    both_end("fairseq-generate", options, tmp_path / "logs")
    parts = [hypotheses((tmp_path / "logs" / f"{rank}.log").read_text()) for rank in range(2)]
    assert all(parts) and not parts[0].keys() & parts[1].keys()
    assert_same_hypotheses(parts[0] | parts[1], whole)
