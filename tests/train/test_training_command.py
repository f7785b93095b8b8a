"""``resmlp-mt train``: the commands that it prints, what it refuses, the file for Slurm."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from cli import ROOT
from fairseq import options as fairseq_options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from resmlp_mt.cli.main import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Call ``resmlp-mt train``; gives its exit status, standard output and standard error."""

    def run(*arguments):
        monkeypatch.delenv("MASTER_ADDR", raising=False)
        capsys.readouterr()
        status = main(["train", *map(str, arguments)])
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


def test_tokens_per_update_do_not_depend_on_the_number_of_gpus(run, corpus, tmp_path):
    found = {}
    for gpus, nodes in ((1, 1), (2, 1), (4, 1), (8, 1), (8, 8)):
        devices = ("--recipe", "paper", "--gpus", gpus, "--nodes", nodes)
        status, out, _ = run(corpus.data, "--out", tmp_path, *devices, "--dry-run")
        assert status == 0
        printed = commands(out)
        assert len(printed) == nodes
        for node, command in enumerate(printed):
            processes = int(option(command, "--distributed-world-size"))
            if processes == 1:
                assert Path(command[0]).name == "fairseq-train" and command[1] == str(corpus.data)
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


def test_options_after_two_dashes_count_first(run, corpus, tmp_path):
    arguments = (corpus.data, "--out", tmp_path, "--gpus", 1, "--dry-run", "--precision", "fp16")
    more = ("--warmup-updates", "4", "--dropout=0.1", "--max-source-positions", 64)
    _, out, _ = run(*arguments, "--max-update", 99, "--", *more)
    (command,) = commands(out)
    assert [command.count(name) for name in ("--warmup-updates", "--dropout")] == [1, 1]
    cfg = config(command, corpus.data)
    assert cfg.lr_scheduler.warmup_updates == 4 and cfg.model.dropout == 0.1
    assert cfg.model.max_source_positions == 64 and cfg.model.max_target_positions == 256
    assert cfg.common.fp16 and cfg.common.fp16_no_flatten_grads
    assert cfg.optimization.max_update == cfg.lr_scheduler.total_num_update == 99
    assert (cfg.task.source_lang, cfg.task.target_lang) == ("xx", "yy")


def test_variables_are_in_the_command(run, corpus, tmp_path):
    arguments = (corpus.data, "--out", tmp_path, "--gpus", 2, "--dry-run")
    (command,) = commands(run(*arguments, "--precision", "tf32", "--threads", 3)[1])
    assert command[:3] == ["env", "RESMLP_MT_MATMUL_PRECISION=high", "OMP_NUM_THREADS=3"]


REFUSED = [
    (["--gpus", 3], "2048 tokens an update are no multiple of 3 GPUs"),
    (["--gpus", 16], "batches of 128 tokens do not hold a sentence of 256"),
    (["--gpus", 4, "--max-tokens", 1024], "512 tokens an update on each of 4 GPUs"),
    (["--gpus", 0], "--gpus 0: must be at least 1"),
    (["--max-tokens", 0], "--max-tokens 0: must be at least 1"),
    (["--nodes", 2, "--node-rank", 2], "--node-rank 2"),
    (["--arch", "perceptron"], "--arch perceptron: there is no such architecture: choose resmlp"),
    (["--recipe", "paper", "--arch", "lstm"], "recipe paper has no options for the model lstm"),
    (["--recipe", "gone.toml"], "--recipe gone.toml: No such file or directory"),
    (["--target-lang", "zz"], "has no train.SOURCE-zz.*.idx"),
    (["--", "--update-freq", 2], "--update-freq after --: write --max-tokens"),
    (["--", "--amp"], "divides the gradients by the loss scale twice"),
    (["--", "--bf16"], "for TPUs"),
    (["--", "--lr", "much"], "fairseq-train does not take these options: argument --lr"),
    (["--", "--no-such"], "unrecognized arguments: --no-such"),
    (["--", "stray"], "stray: after -- write"),
    (["--gpus", 2, "--", "--cpu"], "on a CPU training takes one process"),
    (["--precision", "fp16", "--", "--cpu"], "needs a GPU"),
]


@pytest.mark.parametrize("arguments, said", REFUSED)
def test_refusals(run, corpus, tmp_path, arguments, said):
    out = tmp_path / "out"
    more = () if {"--gpus", "--cpu"} & set(arguments) else ("--gpus", 1)
    status, _, err = run(corpus.data, "--out", out, *more, *arguments)
    assert status == 1 and said in err and len(err.splitlines()) == 1
    assert not out.exists()


def test_data_that_cannot_be_trained_on(run, corpus, tmp_path):
    """No data, a file missing, two dictionaries, two pairs."""
    other, out = tmp_path / "other", tmp_path / "out"
    other.mkdir()
    status, _, err = run(other, "--out", out)
    assert status == 1 and "has no train.SOURCE-TARGET.*.idx" in err
    shutil.copytree(corpus.data, other, dirs_exist_ok=True)
    (other / "valid.xx-yy.xx.bin").unlink()
    status, _, err = run(other, "--out", out)
    assert status == 1 and "valid.xx-yy.xx.bin: no such file" in err
    shutil.copy(corpus.data / "valid.xx-yy.xx.bin", other)
    with open(other / "dict.yy.txt", "a") as file:
        file.write("more 1\n")
    status, _, err = run(other, "--out", out)
    assert status == 1 and "--joined-dictionary" in err and len(err.splitlines()) == 1
    arguments = ("--out", out, "--dry-run", "--arch", "fconv")  # has an embedding a side
    status, printed, _ = run(other, *arguments)
    assert status == 0 and "--share-input-output-embed" in printed
    for path in list(other.glob("train.*")):
        shutil.copy(path, other / path.name.replace("xx-yy", "yy-xx"))
    status, _, err = run(other, *arguments)
    assert status == 1 and "several pairs (xx-yy, yy-xx): add --source-lang" in err
    status, printed, _ = run(other, *arguments, "-s", "xx")
    assert status == 0 and option(commands(printed)[0], "--target-lang") == "yy"
    assert not out.exists()


def test_machines_that_cannot_do_it(run, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    arguments = (corpus.data, "--out", tmp_path / "out")
    status, _, err = run(*arguments, "--gpus", 8)
    assert status == 1 and "--gpus 8: this machine has 4" in err
    status, _, err = run(*arguments, "--nodes", 2)
    assert status == 1 and "--master-addr" in err
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, _, err = run(*arguments, "--", "--tensorboard-logdir", "x")
    assert status == 1 and "pip install 'resmlp-mt[tensorboard]'" in err
    assert not (tmp_path / "out").exists()
    # as many GPUs as there are, or the CPU
    assert option(commands(run(*arguments, "--dry-run")[1])[0], "--nproc_per_node") == "4"
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    (command,) = commands(run(*arguments, "--dry-run")[1])
    assert Path(command[0]).name == "fairseq-train" and "--cpu" in command


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
    arguments = ["data bin", "--out", "x", "--", "--adam-betas", "(0.9, 0.98)"]
    process = subprocess.run(
        ["bash", ROOT / "scripts" / "slurm" / "train.sbatch", *arguments],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr
    for rank, line in enumerate(process.stdout.splitlines()):
        words = line.split("|")
        assert words[:3] == ["-m", "resmlp_mt", "train"] and words[-7:-1] == arguments
        assert option(words, "--nodes") == "2" and option(words, "--gpus") == "8"
        assert option(words, "--node-rank") == str(rank)
        assert option(words, "--master-addr") == "alpha"
        assert re.fullmatch(r"3\d{4}", option(words, "--master-port"))
    assert rank == 1
