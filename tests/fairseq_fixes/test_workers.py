"""Two processes that train, or translate, together: the same as one, and neither waits for the
dead."""

import contextlib
import re
import signal
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq.distributed import utils
from fairseq_programs import (
    CRITERION,
    RECIPE,
    SMALL_MODEL,
    assert_same_hypotheses,
    generate,
    hypotheses,
    values,
)
from interrupting import LAST, kill_late, unlike
from omegaconf import OmegaConf
from processes import Forked, all_well, forked, together

from resmlp_mt.fairseq_fixes.errors_and_noise import explain

MEASURED = Path(__file__).with_name("measured")  # a --user-dir
UPDATES = 12


def words(data, save_dir, *more):
    """A training of 13 batches an epoch: the second process has one less.

    Without dropout: processes that train together draw the same random numbers.
    """
    return (
        *(data, "--user-dir", MEASURED, "--save-dir", save_dir, *SMALL_MODEL, *RECIPE, *CRITERION),
        *("--batch-size", 5, "--required-batch-size-multiple", 1, "--max-update", UPDATES),
        *("--save-interval-updates", 5, *more),
    )


def losses(log):
    """Of every update and of every validation."""
    text = log.read_text("utf-8")
    return values(text, "loss"), values(text, "valid_loss")


@pytest.fixture(scope="module")
def runs(corpus, tmp_path_factory):
    """Trainings by ``one`` process and by ``two``: folders with ``checkpoints`` and ``0.log``."""
    one, two = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    single = words(corpus.data, one, "--update-freq", 2)
    assert forked("fairseq-train", single, one / "0.log").wait(300) == 0
    with together(forked, "fairseq-train", words(corpus.data, two), two / "logs") as processes:
        assert all_well(processes) == []
    return SimpleNamespace(one=one, two=two, log_one=one / "0.log", log_two=two / "logs" / "0.log")


def test_two_processes_train_like_one_with_twice_the_update_freq(runs):
    for one, two, count in zip(losses(runs.log_one), losses(runs.log_two), (UPDATES, 4)):
        assert one == pytest.approx(two, rel=0, abs=1e-4) and len(one) == count
        assert any(abs(loss - round(loss, 3)) > 1e-4 for loss in one)  # more than 3 decimals


def test_a_worker_that_dies(corpus, runs, tmp_path):
    """The other ends with an error; the same command resumes."""
    options, logs = words(corpus.data, tmp_path), tmp_path / "logs"
    with together(forked, "fairseq-train", options, logs) as processes:
        status = kill_late(processes[1].kill, processes[0], logs / "0.log", 7)
    assert status == 1
    said = (logs / "0.log").read_text().strip().splitlines()[-1]
    message = explain(RuntimeError(said.partition("RuntimeError: ")[2]))
    assert message.startswith("another process of this run has ended (Connection ")
    with together(forked, "fairseq-train", options, tmp_path / "again") as processes:
        assert all_well(processes) == []
    assert "Loaded checkpoint" in (tmp_path / "again" / "0.log").read_text()
    assert unlike(runs.two / LAST, tmp_path / LAST) == []


def end_of(text):
    return re.findall(r"(?:stopped by \w+ at|Loaded checkpoint .* @) (?:update )?(\d+)", text)


@pytest.mark.soak
@pytest.mark.parametrize("before, after", [(2, 2), (2, 1), (1, 2)])
def test_another_number_of_processes(corpus, runs, tmp_path, before, after):
    """A signal to one process stops all at the same update; as many or others resume there."""
    for number, logs in ((before, tmp_path / "first"), (after, tmp_path / "then")):
        options = words(corpus.data, tmp_path, "--update-freq", 3 - number)
        with start(number, options, logs) as processes:
            if logs.name == "first":
                status = kill_late(processes[-1].terminate, processes[0], logs / "0.log", 7)
                assert {p.wait(60) for p in processes} == {128 + signal.SIGTERM} == {status}
            else:
                assert all_well(processes) == []
    first, then = ((tmp_path / name / "0.log").read_text() for name in ("first", "then"))
    assert end_of(first)[-1:] == end_of(then)[:1]
    if before == after:
        assert unlike(runs.two / LAST, tmp_path / LAST) == []
    expected, found = losses(runs.log_two), losses(tmp_path / "then" / "0.log")
    for some, others in zip(found, expected):
        assert some == pytest.approx(others[-len(some) :], abs=1e-4)


@contextlib.contextmanager
def start(number, options, logs):
    """One or two processes that train."""
    if number == 1:
        logs.mkdir()
        yield [forked("fairseq-train", options, logs / "0.log")]
    else:
        with together(forked, "fairseq-train", options, logs) as processes:
            yield processes


def test_a_checkpoint_is_broadcast(tmp_path):
    """Its options are in a DictConfig, which PyTorch's weights-only loader refuses."""
    sent = {
        "cfg": OmegaConf.create({"a": {"b": [1]}}),
        "args": Namespace(x=1),
        "model": {"w": torch.arange(3.0), "half": torch.ones(2).half()},
    }

    def join(rank):
        method = f"file://{tmp_path / 'store'}"
        torch.distributed.init_process_group("gloo", method, rank=rank, world_size=2)
        group = torch.distributed.group.WORLD
        got = utils.broadcast_object(sent if rank == 0 else None, 0, group, torch.device("cpu"))
        assert got["cfg"] == sent["cfg"] and got["args"] == sent["args"]
        assert all(torch.equal(got["model"][name], w) for name, w in sent["model"].items())

    processes = [Forked(lambda rank=rank: join(rank), tmp_path / f"{rank}") for rank in range(2)]
    assert all_well(processes) == [], (tmp_path / "1").read_text()


def test_two_processes_translate_like_one(corpus, trained, tmp_path):
    """Each takes its share of the sentences."""
    whole = hypotheses(generate(corpus.data, trained.path, "--batch-size", 2))
    options = (corpus.data, "--user-dir", MEASURED, "--path", trained.path, "--beam", 4)
    options += ("--cpu", "--num-workers", 0, "--batch-size", 2)
    with together(forked, "fairseq-generate", options, tmp_path / "logs") as processes:
        assert all_well(processes) == []
    parts = [hypotheses((tmp_path / "logs" / f"{rank}.log").read_text()) for rank in range(2)]
    assert all(parts) and not parts[0].keys() & parts[1].keys()
    assert_same_hypotheses(parts[0] | parts[1], whole)
