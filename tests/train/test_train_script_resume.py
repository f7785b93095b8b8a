"""scripts/train.py: a run that was stopped goes on, and one folder holds one run."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from cli import call, values, weights
from fairseq.data.iterators import EpochBatchIterator

# the corpus, a fixture
from test_train_script import data  # noqa: F401

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json, write_json
from resmlp_mt.train.command import Devices
from resmlp_mt.train.folder import TrainingFolder
from resmlp_mt.train.job import Training

SMALL = "--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 32"
SMALL += " --decoder-attention-heads 2 --max-source-positions 16 --max-target-positions 16 --cpu"
SMALL += " --warmup-updates 5 --lr 0.05 --num-workers 0 --log-interval 1"
SMALL += " --save-interval-updates 5"


def training(data, out, *more, gpus=1, updates=22, **options):  # noqa: F811
    """A run of 61 pairs, with some nine updates an epoch."""
    options = {"tokens": 64, "max_tokens": 16, **options}
    extra = [*SMALL.split(), *map(str, more)]
    return Training(
        "en-de", "resmlp_mt_tiny", data, out, Devices(gpus), updates=updates, extra=extra, **options
    )


def begin(run):
    """What :meth:`Training.run` does before it becomes the command."""
    note = run.folder.mend(run.devices.processes)
    run.folder.begin(run._settings, run.data_facts, run.devices.processes)
    return note


def here(run):
    """Train in this process; gives the log."""
    command = run.command(0)
    assert Path(command[0]).name == "fairseq-train"
    return call("train", *command[1:]).log


def killed(run, update):
    """Train in a process of its own and kill it at an update."""
    process = subprocess.Popen(
        run.command(0),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )
    for line in process.stdout:
        if f'"num_updates": "{update}"' in line:
            process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


@pytest.fixture(scope="module")
def whole(data, tmp_path_factory):  # noqa: F811
    """A run that was never stopped, and its log."""
    run = training(data, tmp_path_factory.mktemp("whole"))
    begin(run)
    return run, here(run)


def test_a_killed_run_ends_like_one_that_was_not(whole, data, tmp_path):  # noqa: F811
    """Dropout, the order of the batches in this epoch and the next, and Adagrad's state."""
    run, log = whole
    again = training(data, tmp_path / "out")
    begin(again)
    killed(again, 13)  # in the second epoch, whose batches are not the first one's
    assert {path.name for path in again.out.glob("*_10.pt")} == {"checkpoint_2_10.pt"}
    again = training(data, tmp_path / "out")
    assert begin(again) is None
    rest = here(again)
    assert "epoch 2 @ 10 updates" in rest and '"epoch": 3' in rest
    assert values(rest, "loss") == values(log, "loss")[10:] and len(values(log, "loss")) == 22
    assert values(rest, "valid_loss")[-1] == values(log, "valid_loss")[-1]
    ends = [weights(folder / "checkpoint_last.pt") for folder in (run.out, again.out)]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


def test_a_checkpoint_that_was_cut_off_while_it_was_copied(whole, data, tmp_path):  # noqa: F811
    run, _ = whole
    out = tmp_path / "out"
    shutil.copytree(run.out, out)
    last = out / "checkpoint_last.pt"
    content = last.read_bytes()
    last.write_bytes(content[: len(content) // 2])
    now = time.time()
    for age, update in enumerate((20, 15, 10, 5)):
        for path in out.glob(f"checkpoint_*_{update}.pt"):
            os.utime(path, (now - age, now - age))
    os.utime(out / "checkpoint_best.pt", (now - 9, now - 9))
    note = begin(training(data, out))
    newest = next(out.glob("checkpoint_*_20.pt"))
    assert note == f"checkpoint_last.pt was missing or cut off: goes on from {newest.name}"
    assert last.read_bytes() == newest.read_bytes()
    assert not list(out.glob("*.partial"))
    for path in out.glob("checkpoint*.pt"):
        path.write_bytes(b"PK")
    with pytest.raises(UserError, match="every checkpoint is damaged"):
        begin(training(data, out))


def test_other_options_are_refused(whole, data, tmp_path):  # noqa: F811
    run, _ = whole
    out = run.out
    before = (out / "train.json").read_bytes()
    for more, keywords, said in (
        (["--lr", 0.1], {}, r"begun with --lr 0.05, not with --lr 0.1"),
        (["--clip-norm", 1.0], {}, r"begun with --clip-norm 0.0, not with --clip-norm 1.0"),
        (["--store-ema"], {}, r"begun without --store-ema, not with --store-ema"),
        ([], {"seed": 2}, "begun with --seed 1, not with --seed 2"),
        ([], {"tokens": 128}, "begun with --tokens 64, not with --tokens 128"),
        ([], {"max_tokens": 32}, "begun with --max-tokens 16, not with --max-tokens 32"),
        ([], {"precision": "tf32"}, "begun with --precision fp32, not with --precision tf32"),
    ):
        with pytest.raises(UserError, match=said):
            training(data, out, *more, **keywords)
    other = tmp_path / "data"
    shutil.copytree(data, other)
    training(other, out)  # the same data elsewhere
    with open(other / "train.en-de.en.bin", "ab") as file:
        file.write(b"\0\0")
    with pytest.raises(UserError, match="begun with other data"):
        training(other, out)
    assert (out / "train.json").read_bytes() == before
    # longer, other saving and logging, other GPUs; batches stay as they were without being told
    longer = training(
        data, out, "--log-interval", 7, "--save-interval-updates", 6, updates=30, gpus=2,
        max_tokens=None,
    )  # fmt: skip
    assert longer.share.max_tokens == 16 and longer.share.update_freq == 2


def test_options_may_change_until_there_is_a_checkpoint(data, tmp_path):  # noqa: F811
    begin(training(data, tmp_path))
    begin(training(data, tmp_path, "--lr", 0.1))
    assert read_json(tmp_path / "train.json")["settings"]["--lr"] == ["0.1"]


def test_checkpoints_of_unknown_origin(whole, data, tmp_path):  # noqa: F811
    run, _ = whole
    shutil.copy(run.out / "checkpoint_last.pt", tmp_path)
    with pytest.raises(UserError, match="has checkpoints but no train.json"):
        begin(training(data, tmp_path))


class Numbers(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return index


@pytest.mark.parametrize("old, new", [(1, 4), (4, 1), (8, 2)])
def test_the_place_in_an_epoch_for_another_number_of_gpus(whole, tmp_path, old, new):
    """The batches of an update are those that a run with the same GPUs would take next."""
    run, _ = whole
    batches = [[number] for number in range(101)]

    def iterators(gpus):
        return [
            EpochBatchIterator(Numbers(), list, batches, num_shards=gpus, shard_id=shard)
            for shard in range(gpus)
        ]

    def take(sharded, gpus, updates, batches_an_update=8):
        return [
            sorted(
                number
                for iterator in sharded
                for _ in range(batches_an_update // gpus)
                for number in next(iterator)
            )
            for _ in range(updates)
        ]

    first = iterators(old)
    took = take([iterator.next_epoch_itr() for iterator in first], old, 5)
    path = tmp_path / "checkpoint_last.pt"
    state = torch.load(run.out / "checkpoint_last.pt")
    state["cfg"]["distributed_training"]["distributed_world_size"] = old
    state["extra_state"]["train_iterator"] = first[0].state_dict()
    torch.save(state, path)
    write_json(tmp_path / "train.json", {"gpus": old})

    plural = "s" * (new > 1)
    note = f"goes on with {new} GPU{plural} from the same batch of {old}'s"
    assert TrainingFolder(tmp_path).mend(new) == note
    assert TrainingFolder(tmp_path).mend(new) is None  # once is enough
    second = iterators(new)
    place = torch.load(path)["extra_state"]["train_iterator"]
    for iterator in second:
        iterator.load_state_dict(place)
    rest = take([iterator.next_epoch_itr() for iterator in second], new, 7)
    expected = take([iterator.next_epoch_itr() for iterator in iterators(1)], 1, 12)
    assert took + rest == expected


CPU_WORKER = """
# fairseq-train under torchrun as on GPUs: it divides by their number
import torch
torch.cuda.device_count = lambda: 2
torch.cuda.set_device = lambda device: None
from fairseq_cli.train import cli_main
cli_main()
"""


def test_going_on_with_two_processes(data, tmp_path):  # noqa: F811
    """torchrun, fairseq's distributed training and a checkpoint of one process: same losses."""
    cpu = ("--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp", "--dropout", 0)
    log = here(training(data, tmp_path / "one", *cpu, updates=8))
    out = tmp_path / "two"
    first = training(data, out, *cpu, updates=5)
    begin(first)
    here(first)
    run = training(data, out, *cpu, gpus=2, updates=8)
    assert begin(run) == "goes on with 2 GPUs from the same batch of 1's"
    command = run.command(0)
    worker = tmp_path / "worker.py"
    worker.write_text(CPU_WORKER)
    place = command.index("-m")
    command[place : place + 2] = [str(worker)]
    process = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "PYTHONWARNINGS": "ignore", "PATH": os.path.dirname(sys.executable)},
    )
    assert process.returncode == 0, process.stderr[-2000:]
    rest = re.sub(r"INFO:\w+:(?={)", "", process.stdout + process.stderr)
    assert "epoch 1 @ 5 updates" in rest
    assert values(rest, "loss") == pytest.approx(values(log, "loss")[5:], abs=2e-3)
