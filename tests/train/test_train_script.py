"""scripts/train.py: the recipe's figures, the commands that it prints, what it refuses."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import train as script
from cli import call
from fairseq import options as fairseq_options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.optim import build_optimizer
from fairseq.optim.lr_scheduler import build_lr_scheduler
from torch import nn

from resmlp_mt.cli.terminal import run_main
from resmlp_mt.files import read_json

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def data(corpus, tmp_path_factory):
    """The tiny corpus as if it were English and German: a folder of binary data."""
    folder = tmp_path_factory.mktemp("en-de")
    for path in corpus.text.iterdir():
        suffix = {".xx": ".en", ".yy": ".de"}[path.suffix]
        (folder / path.stem).with_suffix(suffix).write_bytes(path.read_bytes())
    prefixes = [word for split in corpus.sizes for word in (f"--{split}pref", folder / split)]
    call(
        *("preprocess", "--source-lang", "en", "--target-lang", "de", "--joined-dictionary"),
        *("--destdir", folder / "bin", "--workers", 1, *prefixes),
    )
    return folder / "bin"


@pytest.fixture
def became(monkeypatch):
    """What the process was to become: the arguments of ``os.execve``, which does nothing here."""
    calls = []
    monkeypatch.setattr("os.execve", lambda *arguments: calls.append(arguments))
    return calls


@pytest.fixture
def run(monkeypatch, capsys, became):
    """Run the script; gives its exit status, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["train.py", *map(str, arguments)])
        monkeypatch.delenv("MASTER_ADDR", raising=False)
        capsys.readouterr()
        status = run_main(script.main)
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def commands(printed):
    """The command lines, comments left out, split as a shell would."""
    return [shlex.split(line) for line in printed.splitlines() if not line.startswith("#")]


def option(command, name):
    return command[command.index(name) + 1]


def config(command, data):
    """What fairseq-train makes of a command line."""
    parser = fairseq_options.get_training_parser()
    words = command[command.index(str(data)) :]
    return convert_namespace_to_omegaconf(
        fairseq_options.parse_args_and_arch(parser, input_args=words)
    )


@pytest.mark.parametrize("arch", ["resmlp_mt_6", "resmlp_mt_12", "transformer_wmt_en_de"])
def test_tokens_per_update_do_not_depend_on_the_number_of_gpus(run, data, tmp_path, arch):
    found = {}
    for gpus, nodes in ((1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (8, 4), (8, 8)):
        devices = ("--gpus", gpus, "--nodes", nodes)
        status, out, _ = run(
            "en-de", data, "--out", tmp_path, "--arch", arch, *devices, "--dry-run"
        )
        assert status == 0
        printed = commands(out)
        assert len(printed) == nodes
        for node, command in enumerate(printed):
            processes = int(option(command, "--distributed-world-size"))
            if processes == 1:
                assert Path(command[0]).name == "fairseq-train" and command[1] == str(data)
            else:
                assert Path(command[0]).name == "torchrun"
                assert int(option(command, "--nproc_per_node")) == gpus
                assert option(command, "-m") == "fairseq_cli.train"
                assert "--load-checkpoint-on-all-dp-ranks" in command
            assert processes == gpus * nodes
            if nodes > 1:
                assert int(option(command, "--nnodes")) == nodes
                assert int(option(command, "--node_rank")) == node
                assert option(command, "--master_addr") == "$MASTER_ADDR"
            sizes = [int(option(command, f"--{name}")) for name in ("max-tokens", "update-freq")]
            found[gpus, nodes] = (sizes[0] * sizes[1] * processes, *sizes)
    assert {tokens for tokens, _, _ in found.values()} == {32768}
    # up to 8 GPUs the batches are the same, too
    assert [found[gpus, 1][1:] for gpus in (1, 2, 4, 8)] == [
        (4096, 8),
        (4096, 4),
        (4096, 2),
        (4096, 1),
    ]
    assert not list(tmp_path.iterdir())


FIGURES = {
    ("en-de", "resmlp_mt_6"): ("adagrad", [0.2], "fixed", 32000, 0.15),
    ("en-fr", "resmlp_mt_12"): ("adagrad", [0.2], "fixed", 32000, 0.1),
    ("en-de", "transformer_wmt_en_de"): ("adam", [0.0007], "inverse_sqrt", 4000, 0.1),
    ("en-fr", "transformer_wmt_en_de"): ("adam", [0.0007], "inverse_sqrt", 4000, 0.1),
}


@pytest.fixture(scope="session")
def french(data, tmp_path_factory):
    """The same data under the names of English and French."""
    folder = tmp_path_factory.mktemp("en-fr")
    for path in data.iterdir():
        name = path.name.replace("en-de", "en-fr").replace(".de.", ".fr.")
        (folder / name).write_bytes(path.read_bytes())
    return folder


@pytest.mark.parametrize("pair, arch", FIGURES)
def test_the_recipe_as_fairseq_reads_it(run, data, french, tmp_path, pair, arch):
    folder = data if pair == "en-de" else french
    _, out, _ = run(pair, folder, "--out", tmp_path, "--arch", arch, "--gpus", 1, "--dry-run")
    cfg = config(commands(out)[0], folder)
    optimizer, lr, scheduler, warmup, dropout = FIGURES[pair, arch]
    assert cfg.optimizer._name == optimizer and cfg.optimization.lr == lr
    assert cfg.lr_scheduler._name == scheduler and cfg.lr_scheduler.warmup_updates == warmup
    assert cfg.model.dropout == dropout and cfg.model.share_all_embeddings
    assert cfg.criterion._name == "label_smoothed_cross_entropy"
    assert cfg.criterion.label_smoothing == 0.1
    assert cfg.optimizer.weight_decay == 0 and cfg.optimization.clip_norm == 0
    assert cfg.model.max_source_positions == cfg.model.max_target_positions == 256
    assert f"en-{cfg.task.target_lang}" == pair and cfg.optimization.max_update == 300000
    assert cfg.dataset.update_epoch_batch_itr and not cfg.common.fp16
    layers = {"resmlp_mt_12": 12}.get(arch, 6)
    assert cfg.model.encoder_layers == cfg.model.decoder_layers == layers
    assert (cfg.model.encoder_embed_dim, cfg.model.encoder_ffn_embed_dim) == (512, 2048)
    if arch.startswith("resmlp"):
        assert cfg.model.layerscale_init == 0.2
    else:
        assert list(cfg.optimizer.adam_betas) == [0.9, 0.98] or (
            cfg.optimizer.adam_betas == "(0.9, 0.98)"
        )


def test_the_rate_warms_up_linearly_and_then_stays(run, data, tmp_path):
    """The paper's schedule, by stepping fairseq's scheduler as its trainer does."""
    _, out, _ = run("en-de", data, "--out", tmp_path, "--gpus", 1, "--dry-run")
    cfg = config(commands(out)[0], data)
    optimizer = build_optimizer(cfg.optimizer, [nn.Parameter(nn.Linear(1, 1).weight)])
    scheduler = build_lr_scheduler(cfg.lr_scheduler, optimizer)
    rates = {}
    for update in (*range(1, 600), *range(15_900, 16_100), *range(31_700, 32_300), 100_000):
        scheduler.step_update(update - 1)
        if update % 100 == 1:  # an epoch
            scheduler.step_begin_epoch(1 + update // 100)
            scheduler.step_update(update - 1)
        rates[update] = optimizer.get_lr()
    assert rates[1] == pytest.approx(0.2 / 32000)
    assert rates[16000] == pytest.approx(0.1)
    assert rates[32000] == pytest.approx(0.2) and rates[31999] < 0.2
    assert {rate for update, rate in rates.items() if update >= 32000} == {0.2}
    assert rates[100_000] == 0.2
    assert all(rate == pytest.approx(0.2 * min(u / 32000, 1)) for u, rate in rates.items())
    # a run that goes on has a new scheduler, which is told the number of updates first
    again = build_lr_scheduler(cfg.lr_scheduler, optimizer)
    again.load_state_dict(scheduler.state_dict())
    again.step_update(50_000)
    again.step_begin_epoch(11)
    again.step_update(50_000)
    assert optimizer.get_lr() == 0.2


def test_options_after_two_dashes_count_first(run, data, tmp_path):
    arguments = ("en-de", data, "--out", tmp_path, "--gpus", 1, "--dry-run", "--precision", "fp16")
    more = ("--warmup-updates", "4", "--dropout=0.3", "--adagrad-is-not-asked")
    status, _, err = run(*arguments, "--", *more)
    assert status == 1 and "unrecognized arguments: --adagrad-is-not-asked" in err
    _, out, _ = run(*arguments, "--", *more[:-1], "--max-source-positions", 64)
    (command,) = commands(out)
    assert [command.count(name) for name in ("--warmup-updates", "--dropout")] == [1, 1]
    cfg = config(command, data)
    assert cfg.lr_scheduler.warmup_updates == 4 and cfg.model.dropout == 0.3
    assert cfg.model.max_source_positions == 64 and cfg.model.max_target_positions == 256
    assert cfg.common.fp16 and cfg.common.fp16_no_flatten_grads


def test_tf32_is_in_the_command(run, data, tmp_path):
    arguments = ("en-de", data, "--out", tmp_path, "--gpus", 2, "--dry-run", "--precision", "tf32")
    (command,) = commands(run(*arguments)[1])
    assert command[:2] == ["env", "RESMLP_MT_MATMUL_PRECISION=high"]


REFUSED = [
    (["--gpus", 3], "32768 tokens an update are no multiple of 3 GPUs"),
    (["--gpus", 64, "--nodes", 4], "batches of 128 tokens do not hold a sentence of 256"),
    (["--gpus", 16, "--max-tokens", 4096], "2048 tokens an update on each of 16 GPUs"),
    (["--gpus", 0], "--gpus 0: must be at least 1"),
    (["--max-tokens", 0], "--max-tokens 0: must be at least 1"),
    (["--nodes", 2, "--node-rank", 2], "--node-rank 2"),
    (["--arch", "lstm"], "--arch lstm: there is a recipe for resmlp_mt_6"),
    (["--", "--update-freq", 2], "--update-freq after --: write --max-tokens"),
    (["--", "--amp"], "divides the gradients by the loss scale twice"),
    (["--", "--bf16"], "for TPUs"),
    (["--", "--lr", "much"], "fairseq-train does not take these options: argument --lr"),
    (["--", "stray"], "stray: after -- write"),
    (["--", "--lr", 1, "-s", "en"], "-s: after -- write"),
]


@pytest.mark.parametrize("arguments, said", REFUSED)
def test_refusals(run, data, tmp_path, arguments, said):
    out = tmp_path / "out"
    more = () if "--gpus" in arguments else ("--gpus", 1)
    status, _, err = run("en-de", data, "--out", out, *more, *arguments)
    assert status == 1 and said in err and len(err.splitlines()) == 1
    assert not out.exists()


def test_data_that_is_not_there_or_not_joined(run, data, french, tmp_path):
    for folder, said in ((tmp_path, "dict.en.txt: no such file"), (french, "dict.de.txt: no such")):
        status, _, err = run("en-de", folder, "--out", tmp_path / "out", "--gpus", 1)
        assert status == 1 and said in err and "data-bin" in err
    other = tmp_path / "other"
    other.mkdir()
    for path in data.iterdir():
        (other / path.name).write_bytes(path.read_bytes())
    with open(other / "dict.de.txt", "a") as file:
        file.write("more 1\n")
    status, _, err = run("en-de", other, "--out", tmp_path / "out", "--gpus", 1)
    assert status == 1 and "--joined-dictionary" in err and len(err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_gpus_that_are_not_there(run, data, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    arguments = ("en-de", data, "--out", tmp_path / "out")
    status, _, err = run(*arguments, "--gpus", 8)
    assert status == 1 and "--gpus 8: this machine has 4" in err
    status, _, err = run(*arguments, "--nodes", 2)
    assert status == 1 and "--master-addr" in err
    status, _, err = run(*arguments, "--", "--cpu")
    assert status == 1 and "--gpus 1" in err
    assert not (tmp_path / "out").exists()


def test_it_becomes_the_command_that_it_prints(run, became, data, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    arguments = ("en-de", data, "--out", tmp_path / "out", "--precision", "tf32")
    status, printed, _ = run(*arguments)
    assert status == 0
    ((program, command, environment),) = became
    assert program == command[0] and os.access(program, os.X_OK)
    assert commands(printed) == [command]
    assert commands(run(*arguments, "--dry-run")[1])[0][2:] == command  # after env's two words
    assert environment["RESMLP_MT_MATMUL_PRECISION"] == "high" and "PATH" in environment
    manifest = read_json(tmp_path / "out" / "train.json")
    assert manifest["gpus"] == 4 and manifest["settings"]["--tokens"] == ["32768"]


def test_the_slurm_file(tmp_path):
    """With scontrol, srun and python replaced: what each of two nodes would run."""
    stubs = {
        # longer than a pipe holds: whoever stops reading after a line would end it
        "scontrol": "echo alpha; for i in {1..20000}; do echo beta$i; done",
        "srun": 'for SLURM_NODEID in 0 1; do export SLURM_NODEID; "$@"; done',
        "fake-python": 'printf "%s|" "$@"; echo',
    }
    for name, text in stubs.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    slurm = {"JOB_NODELIST": "alpha,beta", "JOB_ID": "12345", "NNODES": "2", "GPUS_ON_NODE": "8"}
    environment = {
        **{f"SLURM_{name}": value for name, value in slurm.items()},
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHON": str(tmp_path / "fake-python"),
    }
    arguments = ["en-de", "data bin", "--out", "x", "--", "--adam-betas", "(0.9, 0.98)"]
    process = subprocess.run(
        ["bash", ROOT / "scripts" / "slurm" / "train.sbatch", *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    for rank, line in enumerate(process.stdout.splitlines()):
        words = line.split("|")
        assert words[0] == "scripts/train.py" and words[-8:-1] == arguments
        assert option(words, "--nodes") == "2" and option(words, "--gpus") == "8"
        assert option(words, "--node-rank") == str(rank)
        assert option(words, "--master-addr") == "alpha"
        assert re.fullmatch(r"3\d{4}", option(words, "--master-port"))
    assert rank == 1
