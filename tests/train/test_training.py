"""Trainings that are stopped and resumed, and a folder that holds one training."""

import os
import re
import shutil
import signal
import time

import pytest
import torch
from fairseq.data.iterators import EpochBatchIterator
from fairseq_programs import call, values, weights
from processes import Forked

from resmlp_mt.errors import UserError
from resmlp_mt.files import read_json, write_json
from resmlp_mt.train.command import Devices, share_tokens
from resmlp_mt.train.folder import TrainingFolder
from resmlp_mt.train.log import TrainingBar, read_curve
from resmlp_mt.train.programs import run_command
from resmlp_mt.train.recipe import load_recipe
from resmlp_mt.train.training import Training

SMALL = "--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 16 --encoder-ffn-embed-dim 32"
SMALL += " --decoder-attention-heads 2 --max-source-positions 16 --max-target-positions 16 --cpu"
SMALL += " --warmup-updates 5 --lr 0.05 --num-workers 0 --log-interval 1"
SMALL += " --save-interval-updates 5"
UPDATES = 22


def training(corpus, out, *more, gpus=1, **options):
    """A run of 61 pairs, with some nine updates an epoch."""
    options = {"tokens": 64, "max_tokens": 16, "threads": 1, "max_update": UPDATES, **options}
    return Training(
        corpus.data,
        out,
        "resmlp_mt_tiny",
        load_recipe("paper"),
        devices=Devices(gpus),
        fairseq_options=[*SMALL.split(), *map(str, more)],
        **options,
    )


def assert_same_end(some, other):
    ends = [weights(folder / "checkpoint_last.pt") for folder in (some, other)]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """A run that was never stopped."""
    run = training(corpus, tmp_path_factory.mktemp("whole") / "out")
    run.run()
    return run


def test_what_a_run_leaves(whole):
    assert {path.name for path in whole.out.iterdir() if path.suffix != ".pt"} - {".lock"} == {
        *("train.log", "train.json", "cost.json")
    }
    assert len(values((whole.out / "train.log").read_text(), "loss")) == UPDATES
    curve = read_curve(whole.out / "train.log")
    assert [update for update, _ in curve["train"]] == list(range(1, UPDATES + 1))
    assert curve["valid"][-1][0] == UPDATES
    assert read_json(whole.out / "cost.json")["cpu_minutes"] > 0


def test_what_a_user_sees(whole, corpus, tmp_path, monkeypatch, capsys):
    """The bar reaches the end, validations and warnings stand above it, each warning once."""
    lines = (whole.out / "train.log").read_text().splitlines()
    with TrainingBar(UPDATES) as bar:
        for line in [*lines, *lines]:
            bar.show(line)
        assert bar.n == UPDATES
    shown = capsys.readouterr().out
    assert shown.count("training is likely to diverge: give --warmup-updates") == 1
    assert shown.count(f"update {UPDATES:6}: validation nll ") == 2

    monkeypatch.setattr("resmlp_mt.train.training.run_command", lambda *_, **__: None)
    training(corpus, tmp_path, max_update=5).run()
    assert "the warm-up (5 updates) does not end before the training" in capsys.readouterr().out


def last_records(run):
    """The last two lines of a log that a curve is read from."""
    lines = (run.out / "train.log").read_text().splitlines()
    return [
        [line for line in lines if f"| {kind} |" in line][-1] for kind in ("train_inner", "valid")
    ]


def test_a_criterion_without_label_smoothing(whole, tmp_path, capsys):
    """The loss of --criterion cross_entropy is the nll: it is logged once."""
    log = tmp_path / "train.log"
    lines = [re.sub(r'"(valid_)?nll_loss": "[^"]*", ', "", line) for line in last_records(whole)]
    assert all("loss" in line and "nll" not in line for line in lines)
    log.write_text("\n".join(lines))
    found = [float(re.search(r'loss": "([^"]*)"', line)[1]) for line in lines]
    assert read_curve(log) == {"train": [(UPDATES, found[0])], "valid": [(UPDATES, found[1])]}
    with TrainingBar(UPDATES) as bar:
        for line in lines:
            bar.show(line)
    assert f"validation nll {found[1]:.3f} bits a token" in capsys.readouterr().out


@pytest.mark.parametrize(
    "damage",
    [
        lambda train, _: train + train,
        lambda train, valid: valid + train,
        lambda train, _: train[:-20] + "}",
        lambda train, _: train.replace('"num_updates": "', '"num_updates": "2 of '),
        lambda _, valid: valid.replace("valid_num_updates", "updates"),
        lambda _, valid: valid.replace("valid_loss", "l").replace("valid_nll_loss", "l"),
    ],
    ids=range(6),
)
def test_a_line_that_two_processes_wrote(whole, tmp_path, capsys, damage):
    """It is no record: neither the bar nor a curve ends by it."""
    train, valid = last_records(whole)
    line = damage(train, valid)
    assert line not in (train, valid)
    with TrainingBar(UPDATES) as bar:
        bar.show(line)
        assert bar.n == 0
        bar.show(valid)
        assert bar.n == UPDATES
    assert capsys.readouterr().out.count("validation nll") == 1
    log = tmp_path / "train.log"
    log.write_text(f"{line}\n{train}\n{valid}\n")
    found = read_curve(log)
    assert [[update for update, _ in found[kind]] for kind in ("train", "valid")] == [[UPDATES]] * 2


def killed(corpus, out, update):
    """A run in a process of its own, killed with -9 at an update."""
    process, log = Forked(training(corpus, out).run, out.with_name("said")), out / "train.log"
    while f'"num_updates": "{update}"' not in (log.read_text() if log.exists() else ""):
        assert process.poll() is None, out.with_name("said").read_text()
        time.sleep(0.01)
    process.kill()
    assert process.wait(60) == -signal.SIGKILL, "it ended before it was killed"


def test_a_killed_run_ends_like_one_that_was_not(whole, corpus, tmp_path):
    """Dropout, the order of the batches in this epoch and the next, and the state of Adagrad."""
    out = tmp_path / "out"
    killed(corpus, out, 13)  # in the second epoch, whose batches are not those of the first
    assert "checkpoint_2_10.pt" in {path.name for path in out.glob("*.pt")}
    before = len((out / "train.log").read_text())
    training(corpus, out).run()
    rest = (out / "train.log").read_text()[before:]
    resumed = int(re.search(r"epoch \d @ (\d+) updates", rest)[1])
    assert resumed in (10, 15, 20) and '"epoch": 3' in rest
    expected = values((whole.out / "train.log").read_text(), "loss")
    assert values(rest, "loss") == expected[resumed:]
    assert_same_end(whole.out, out)


def test_a_checkpoint_that_was_cut_off_while_it_was_copied(whole, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(whole.out, out)
    last = out / "checkpoint_last.pt"
    last.write_bytes(last.read_bytes()[:5000])
    newest = next(out.glob("checkpoint_*_20.pt"))
    for path in out.glob("checkpoint*.pt"):
        os.utime(path, (0, 2 if path == newest else 1))
    note = f"checkpoint_last.pt was missing or cut off: resumes from {newest.name}"
    assert TrainingFolder(out).mend(1) == [note]
    assert last.read_bytes() == newest.read_bytes() and not list(out.glob("*.tmp"))
    for path in out.glob("checkpoint*.pt"):
        path.write_bytes(b"PK")
    with pytest.raises(UserError, match="every checkpoint is damaged"):
        TrainingFolder(out).mend(1)
    (out / "train.json").unlink()
    with pytest.raises(UserError, match="has checkpoints but no train.json"):
        TrainingFolder(out).mend(1)


def test_other_options_are_refused(whole, corpus):
    out = whole.out
    before = (out / "train.json").read_bytes()
    for more, keywords, said in (
        (["--lr", 0.1], {}, "begun with --lr 0.05, not with --lr 0.1"),
        (["--store-ema"], {}, "begun without --store-ema, not with --store-ema"),
        ([], {"seed": 2}, "begun with --seed 1, not with --seed 2"),
        ([], {"tokens": 128}, "begun with --tokens 64, not with --tokens 128"),
        ([], {"max_tokens": 32}, "begun with --max-tokens 16, not with --max-tokens 32"),
        ([], {"precision": "tf32"}, "begun with --precision fp32, not with --precision tf32"),
    ):
        with pytest.raises(UserError, match=said):
            training(corpus, out, *more, **keywords)
    assert (out / "train.json").read_bytes() == before
    # longer, other saving and logging; batches stay as they were where no option says so
    more = ("--log-interval", 7, "--save-interval-updates", 6)
    longer = training(corpus, out, *more, max_update=30, max_tokens=None)
    assert longer.share.max_tokens == 16 and longer.share.update_freq == 4


def test_another_length_where_the_learning_rate_ends_with_the_training(corpus, tmp_path):
    """The message names the option that the user wrote."""

    def small(updates):
        recipe, more = load_recipe("small"), ["--cpu"]
        options = {"max_update": updates, "fairseq_options": more}
        return Training(corpus.data, tmp_path, "resmlp_mt_tiny", recipe, **options)

    begun = small(300)
    begun.folder.begin(begun._settings, begun.data_facts)
    (tmp_path / "checkpoint_last.pt").touch()
    with pytest.raises(UserError) as caught:
        small(400)
    assert str(caught.value) == (
        f"{tmp_path}: its learning rate is planned for --max-update 300 (--total-num-update): a "
        "training of 400 is another one: choose another folder for --out, or --max-update 300"
    )


def copies(whole, corpus, folder):
    """A copy of the corpus, and a copy of the folder of its training."""
    data = shutil.copytree(corpus.data, folder / "data")
    return type(corpus)(data=data), shutil.copytree(whole.out, folder / "out")


@pytest.mark.parametrize("split", ["train", "valid"])
def test_other_data_are_refused(whole, corpus, tmp_path, split):
    """Other words in a file of the same size, and a further file of the split."""
    other, out = copies(whole, corpus, tmp_path)
    training(other, out)  # the same data in another folder
    words = other.data / f"{split}.xx-yy.yy.bin"
    content = words.read_bytes()
    words.write_bytes(content[-2:] + content[2:])
    said = f'begun with other data .train.json has another "{split}"'
    with pytest.raises(UserError, match=said):
        training(other, out)
    words.write_bytes(content)
    shutil.copy(words, other.data / f"{split}1.xx-yy.yy.bin")
    with pytest.raises(UserError, match=said):
        training(other, out)


@pytest.mark.parametrize("beside", ["train.json", "dict.yy.txt"])
def test_a_start_from_a_model_of_other_dictionaries_is_refused(whole, corpus, tmp_path, beside):
    """The same words in another order: every number would mean another word."""
    other, _ = copies(whole, corpus, tmp_path)
    start = whole.out / "checkpoint_last.pt"
    if beside == "dict.yy.txt":
        start = shutil.copy(start, tmp_path / "model.pt")
        for path in corpus.data.glob("dict.*"):
            shutil.copy(path, tmp_path)
    begin = ("--finetune-from-model", start)
    training(other, tmp_path / "same", *begin)
    words = (other.data / "dict.xx.txt").read_text().splitlines()
    for language in ("xx", "yy"):
        (other.data / f"dict.{language}.txt").write_text("\n".join([*words[::-1], ""]))
    with pytest.raises(UserError, match="was trained with other dictionaries than those of"):
        training(other, tmp_path / "new", *begin)


def test_files_of_another_program_are_kept(corpus, tmp_path):
    for name in ("train.json", "cost.json"):
        out = tmp_path / name.partition(".")[0]
        out.mkdir()
        write_json(out / name, {"usd": 3})
        with pytest.raises(UserError, match=f"{name} is a file of another program"):
            training(corpus, out).run()
        assert read_json(out / name) == {"usd": 3} and not list(out.glob("*.pt"))


def test_options_may_change_until_there_is_a_checkpoint(corpus, tmp_path):
    write_json(tmp_path / "train.json", {"settings": {"--lr": ["0.1"]}, "data": {}})
    training(corpus, tmp_path)


class Numbers(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return index


@pytest.mark.parametrize("old, new", [(1, 4), (8, 2)])
def test_the_place_in_an_epoch_for_another_number_of_gpus(whole, tmp_path, old, new):
    """The batches of an update are those that a run with the same GPUs would take next."""
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
    state = torch.load(whole.out / "checkpoint_last.pt")
    state["cfg"]["distributed_training"]["distributed_world_size"] = old
    state["extra_state"]["train_iterator"] = first[0].state_dict()
    # it is the place of the checkpoint: the last run may have ended before it wrote one
    torch.save(state, tmp_path / "checkpoint_1_5.pt")
    write_json(tmp_path / "train.json", {"settings": {"--gpus": [str(new)]}, "data": {}})

    note = f"resumes with {new} process{'es' * (new > 1)} at the batch where {old} stopped"
    assert TrainingFolder(tmp_path).mend(new)[-1] == note
    assert TrainingFolder(tmp_path).mend(new) == []  # once is enough
    second = iterators(new)
    place = torch.load(tmp_path / "checkpoint_last.pt")["extra_state"]["train_iterator"]
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


def test_resuming_with_two_processes(corpus, tmp_path):
    """torchrun, the distributed training of fairseq, a checkpoint of one process: same losses."""
    cpu = ("--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp", "--dropout", 0)

    def here(out, updates):
        run = training(corpus, out, *cpu, max_update=updates)
        return call("train", *run.command()[1:]).log

    log = here(tmp_path / "one", 8)
    out = tmp_path / "two"
    here(out, 5)
    # --cpu takes one process: the worker stands in for two GPUs
    run = training(corpus, out, *cpu, max_update=8)
    run.devices = Devices(2)
    run.share = share_tokens(64, run.devices, 16, 16)
    write_json(out / "train.json", {"settings": {}, "data": {}})
    assert run.folder.mend(2) == ["resumes with 2 processes at the batch where 1 stopped"]
    command = run.command()
    worker = tmp_path / "worker.py"
    worker.write_text(CPU_WORKER)
    place = command.index("-m")
    command[place : place + 2] = [str(worker)]
    run_command("torchrun", command, tmp_path / "log", environment={"OMP_NUM_THREADS": "1"})
    rest = re.sub(r"INFO:\w+:(?={)", "", (tmp_path / "log").read_text())
    assert "epoch 1 @ 5 updates" in rest
    assert values(rest, "loss") == pytest.approx(values(log, "loss")[5:], abs=2e-3)
