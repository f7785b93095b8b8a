"""The commands that ``resmlp-mt train`` prints, and starts: they end when it ends."""

import contextlib
import os
import re
import select
import shlex
import shutil
import signal
import sys
from pathlib import Path
from unittest import mock

import pytest
from command import ran, refused
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq_programs import call
from processes import Forked

from resmlp_mt.autocast import AUTOCAST
from resmlp_mt.cli.main import main, run_main
from resmlp_mt.pipeline.train import recipe
from resmlp_mt.pipeline.train.command import run_command
from resmlp_mt_runtime.errors import UserError


@pytest.fixture
def many(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No GPU, no tcmalloc."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    monkeypatch.setattr("resmlp_mt.pipeline.train.training.find_library", {}.get)


def option(command, name):
    return command[command.index(name) + 1]


def started(data, out, *words):
    """Call ``resmlp-mt train`` with these words; gives the command that it would start."""
    with mock.patch("resmlp_mt.pipeline.train.training.run_command") as run:
        output = ran("train", data, "--out", out, *words)
    (printed,) = [line for line in output.err.splitlines() if "--user-dir" in line]
    command = run.call_args.args[0]
    assert shlex.split(printed) == command
    return command


def test_tokens_per_update_do_not_depend_on_the_number_of_gpus(corpus, tmp_path, many):
    """The batches are the same, too."""
    for gpus in (1, 2, 8):
        command = started(corpus.data, tmp_path / f"{gpus}", "--recipe", "paper", "--gpus", gpus)
        assert option(command, "--distributed-world-size") == str(gpus)
        shared = [int(option(command, name)) for name in ("--max-tokens", "--update-freq")]
        assert shared == [4096, 8 // gpus]
        assert Path(command[0]).name == ("fairseq-train" if gpus == 1 else "torchrun")
    assert option(command, "--nproc_per_node") == "8" and "--standalone" in command
    assert Path(option(command, "--no-python")).name == "fairseq-train"


def test_a_cpu_s_training_resumes_on_two_gpus(corpus, tmp_path, many):
    started(corpus.data, tmp_path, "--cpu")
    (tmp_path / "checkpoint_last.pt").touch()
    command = started(corpus.data, tmp_path, "--gpus", 2)
    assert [option(command, name) for name in ("--max-tokens", "--update-freq")] == ["1024", "1"]


def test_options_and_variables(corpus, tmp_path, many):
    """Those after -- override the recipe. A precision has options or variables."""
    words = ("--gpus", 1, "--precision", "fp16", "--max-update", 99, "--")
    more = ("--warmup-updates", "4", "--dropout=0.1", "--max-source-positions", 64)
    command = started(corpus.data, tmp_path, *words, *more)
    expected = "--warmup-updates 4 --dropout 0.1 --total-num-update 99 --max-source-positions 64 "
    expected += "--max-target-positions 256 --max-update 99 --source-lang xx --target-lang yy"
    for name, value in zip(expected.split()[::2], expected.split()[1::2]):
        assert command.count(name) == 1 and option(command, name) == value
    assert "--fp16" in command and "--fp16-no-flatten-grads" in command
    command = started(corpus.data, tmp_path, "--gpus", 2, "--precision", "bf16", "--threads", 3)
    assert command[:3] == ["env", "RESMLP_MT_AUTOCAST=bfloat16", "OMP_NUM_THREADS=3"]


def test_tcmalloc_if_it_is_installed(corpus, tmp_path, many, monkeypatch):
    """On a CPU, beside what the user preloads."""
    installed = {"tcmalloc_minimal": "libtcmalloc_minimal.so.4"}
    monkeypatch.setattr("resmlp_mt.pipeline.train.training.find_library", installed.get)
    monkeypatch.setenv("LD_PRELOAD", "libm.so.6")
    preloaded = "LD_PRELOAD=libm.so.6 libtcmalloc_minimal.so.4"
    assert preloaded in started(corpus.data, tmp_path, "--cpu")
    assert "LD_PRELOAD" not in " ".join(started(corpus.data, tmp_path, "--gpus", 1))
    installed.clear()
    assert "LD_PRELOAD" not in " ".join(started(corpus.data, tmp_path, "--cpu"))


REFUSED = {
    "--gpus 3": "--tokens 2048 must be a multiple of GPUs x --max-tokens (3 x 682)",
    "--gpus 9": "--gpus 9: PyTorch finds 8",
    "--arch perceptron": "--arch perceptron: there is no such architecture: choose resmlp",
    "--recipe paper --arch lstm": "recipe paper has no options for the model lstm",
    "--recipe gone.toml": "--recipe gone.toml: No such file or directory: choose trial",
    "--target-lang zz": "has no train.SOURCE-zz.*.idx",
    "-- --update-freq 2": "--update-freq after --: resmlp-mt sets it by --tokens",
    "-- --fp16": "--fp16 after --: resmlp-mt sets it by --precision",
    "-- --log-format simple": "--log-format after --: resmlp-mt sets it by itself",
    "-- --no-last-checkpoints": "--no-last-checkpoints after --: resmlp-mt sets it by itself",
    "-- --lr much": "fairseq-train does not accept these options: argument --lr",
    "-- --continue-once gone.pt": "gone.pt: no such file: give a checkpoint to start",
    "-- --token-mixing-heads 7": "_small: --token-mixing-heads 7: it must divide",
    "-- --encoder-embed-dim -4": "negative dimension -4",
    "-- stray": "stray: after -- write",
    "-- --lr 1 -s en": "-s: after -- write",
    "--precision fp16 -- --cpu": "needs a GPU",
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_options_are_refused_before_anything_is_written(corpus, tmp_path, many, words):
    refused(REFUSED[words], "train", corpus.data, "--out", tmp_path / "out", *words.split())
    assert not (tmp_path / "out").exists()


def test_help_of_fairseq_train(corpus, tmp_path, capsys):
    words = ("train", corpus.data, "--out", tmp_path / "out", "--", "--help")
    with pytest.raises(SystemExit) as stop:
        main([*map(str, words)])
    assert not stop.value.code and "--save-interval-updates" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_data_that_cannot_be_trained_on(corpus, tmp_path):
    other, out = tmp_path / "other", tmp_path / "out"
    command = ("train", other, "--out", out)
    refused("has no train.SOURCE-TARGET.*.idx", *command)
    shutil.copytree(corpus.data, other, dirs_exist_ok=True)
    for path in list(other.glob("train.*")):
        shutil.copy(path, other / path.name.replace("xx-yy", "yy-xx"))
    refused("several pairs (xx-yy, yy-xx): add --source-lang", *command)
    assert not out.exists()
    assert option(started(other, out, "-s", "xx"), "--target-lang") == "yy"
    words = ("--dataset-impl", "cached", "--trainpref", corpus.text / "train", "--only-source")
    call("preprocess", "-s", "xx", "-t", "yy", *words, "--destdir", tmp_path / "cached")
    for path in (tmp_path / "cached").glob("train.*.xx.*"):
        shutil.copy(path, other)
    started(other, tmp_path / "old", "-s", "xx", "--", "--dataset-impl", "cached")
    for end in ("bin", "idx"):
        shutil.copy(other / f"train.xx-yy.yy.{end}", other / f"valid.xx-yy.yy.{end}")
    sources = len(MMapIndexedDataset(f"{other}/valid.xx-yy.xx"))
    refused(f"valid.xx-yy has {sources} sources and ", *command, "-s", "xx")
    (other / "valid.xx-yy.yy.bin").unlink()
    refused("valid.xx-yy.yy lacks its .bin or .idx: prepare the data again", *command, "-s", "xx")


def test_a_recipe_without_positions(corpus, tmp_path):
    text, own = (recipe.FOLDER / "trial.toml").read_text(), tmp_path / "own.toml"
    own.write_text(re.sub("max-.*-positions.*", "", text))
    assert "--max-source-positions" not in started(corpus.data, tmp_path / "out", "--recipe", own)


def test_what_the_machine_has(corpus, tmp_path, monkeypatch):
    command = started(corpus.data, tmp_path / "out")
    assert Path(command[0]).name == "fairseq-train" and "--cpu" in command
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    assert option(started(corpus.data, tmp_path / "out"), "--nproc_per_node") == "4"


@pytest.mark.parametrize(
    "name, status", [("SIGTERM", 143), ("SIGINT", 130), ("SIGUSR1", 138), ("SIGKILL", -9)]
)
def test_the_child_ends_with_its_parent(tmp_path, name, status):
    output = tmp_path / "output"

    def sleep():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it
        child = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
        command = ["env", "NAME=value", sys.executable, "-c", child]
        sys.exit(run_main(lambda: run_command(command, tmp_path / "log", print)))

    parent = Forked(sleep, output)
    parent.until(lambda text: text.endswith("\n"))
    child = int(output.read_text())
    os.kill(parent.pid, signal.Signals[name])
    assert parent.wait() == status
    with contextlib.suppress(ProcessLookupError):  # it ends within ten seconds
        assert select.select([os.pidfd_open(child)], [], [], 10)[0]


def test_output_and_errors(tmp_path, monkeypatch):
    """``--precision`` decides what the shell may not."""
    log, seen = tmp_path / "log", []
    monkeypatch.setenv(AUTOCAST, "bfloat16")

    def run(code, **environment):
        folder = os.fsdecode(b"caf\xe9")  # whatever the encoding of names
        variables = [f"{name}={value}" for name, value in environment.items()]
        command = ["env", *variables, sys.executable, "-c", f"import os, sys; {code}", folder]
        run_command(command, log, seen.append)

    run(f"print(repr(os.environ['{AUTOCAST}']))")
    run(f"print(os.environ['{AUTOCAST}'])", **{AUTOCAST: "7"})
    torchrun = "a.b.ChildFailedError: \\n" + "rank: 0\\n" * 300
    for said, code in {
        rf"failed: two \(its whole output: {log}\)": "print('one'); sys.exit('two')",
        "failed: bad option ": "sys.exit('fairseq-train: error: bad option')",
        "failed: killed by signal 9": "os.kill(os.getpid(), 9)",
        "was stopped by SIGTERM: the same command resumes it": "sys.exit(143)",
        "failed: ValueError: three": "print('ValueError: three\\nend', flush=True); os.abort()",
        r"failed: a.b.OwnError: one \(": "sys.exit('  ValueError: x\\na.b.OwnError: one\\ntwo')",
        "failed: ValueError: four ": f"sys.exit('ValueError: four\\nTraceback:\\n{torchrun}')",
    }.items():
        with pytest.raises(UserError, match=f"^fairseq-train {said}"):
            run(code)
    assert seen[:5] == ["''", "7", "one", "two", "fairseq-train: error: bad option"]
    assert log.read_text(errors="surrogateescape").splitlines()[1:4:2] == ["''", "7"]
