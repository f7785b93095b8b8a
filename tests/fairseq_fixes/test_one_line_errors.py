"""What a user can correct ends in one line and a non-zero exit; other errors stay as they are."""

import gc
import os
import re
import shutil
from fnmatch import fnmatchcase
from unittest import mock

import pytest
import torch
from fairseq import options as fairseq_options
from fairseq_programs import call, load, refusal, training

from resmlp_mt import ResMLPModel
from resmlp_mt.cli.main import run_main
from resmlp_mt.fairseq_fixes.messages import in_one_line, naming

SHORT = ("--batch-size", 8, "--max-epoch", 1)

# the program and its words; what it says from its beginning, or behind the star
REFUSED = {
    "generate {data} --path {gone}": "Model file not found: {gone}",
    "generate {data} --path {pipe}": "{pipe} is not a regular file: give a checkpoint",
    "generate {folder} --path {path} -s xx -t yy": "{folder}/dict.xx.txt: No such file",
    "generate {data} --path {narrow}": "{narrow}: --max-source-positions, --max-target-*(1,",
    "generate {data} --path {mine}": "{mine}: --arch mine is unknown: give the --user-dir that",
    "interactive {data} --path {path}": "Size of sample #0 is invalid",
    "interactive {data} --path {path} --bpe sentencepiece": "--bpe sentencepiece: give --sen",
    "train {bare}": "Dataset not found: train ({bare})",
    "train {folder} --task language_modeling": "Unsupported language modeling target: future",
    "train {data} --save-dir {file}/save": "{file}/save: Not a directory",
    "train {data} --restore-file {averaged}": "{averaged} has no optimizer state",
    "train {data} --encoder-embed-dim 24 --restore-file {path}": "{path} does not fit the model",
    "train {data} --restore-file {transformer}": "{transformer} does not fit the model: it",
    "train {data} --restore-file {path} --lr-scheduler inverse_sqrt": "*--reset-lr-scheduler",
    "train {data} --max-tokens-valid 4": "*raise --max-tokens (or --max-tokens-valid)",
    "train {data} --best-checkpoint-metric bleu": "*--best-checkpoint-metric bleu: add --eval-bleu",
    "train {data} --eval-bleu --best-checkpoint-metric bleu": "*bleu: add --maximize-best-checkp",
    "train {data} --fp16": "*--fp16: needs a GPU: resmlp-mt train --precision bf16 does not",
    "train {data} --amp": "*--amp: needs a GPU",
    "train {data} --bf16": "*--bf16: needs a TPU, and torch_xla: resmlp-mt train --precision bf16",
    "train {data} --write-checkpoints-asynchronously": "*needs iopath, which is not installed",
    "train {data} --restore-file gone.pt": "*gone.pt: there is no such checkpoint",
    "train {data} --continue-once gone.pt": "*gone.pt: there is no such checkpoint",
    "train {data} --finetune-from-model {path} --store-ema": "--store-ema: {path} has no such aver",
    "train {data} --finetune-from-model gone.pt": "*--finetune-from-model gone.pt does not exist",
    "train {data} --cpu-offload": "*--cpu-offload requires --ddp-backend=fully_sharded",
    "train {data} --optimizer muon --use-old-adam": "*--use-old-adam: --optimizer muon does not",
    "train {data} --optimizer lamb": "*Please install apex",
    "train {data} --max-source-positions 2 --skip-invalid-size-inputs-valid-test": "*is empty",
    "generate {data} --path {path} --temperature 0": "*--temperature must be greater than 0",
    "generate {data} --path {path} --min-len 32": "*min-len 32: a hypothesis has at most 31 tokens",
    "generate {data} --path {path} --model-overrides print(1)": "*'print(1)' is refused",
    "generate {data} --path {path} --replace-unk": "*--replace-unk requires a raw text dataset",
    "generate {data} --path {path} --constraints": "*only fairseq-interactive supports them",
    "generate {data} --path {path} --print-step": "*--print-step: only models of --task transl",
    "generate {data} --path {path} --retain-iter-history": "*--retain-iter-history: only models of",
    "generate {data} --path {path} --score-reference --print-alignment soft": "*alignment hard",
    "generate {data} --path {path} --tokenizer moses": "*--tokenizer moses: add --source-lang and",
}


@pytest.fixture(scope="module")
def places(trained, transformer, corpus, tmp_path_factory):
    """What stands for the names in braces."""
    folder = tmp_path_factory.mktemp("files")
    shutil.copytree(corpus.data, folder / "bare", ignore=shutil.ignore_patterns("train*"))
    (folder / "file").touch()
    shutil.copy(next(corpus.data.glob("dict.*")), folder / "dict.txt")
    os.mkfifo(folder / "pipe")
    torch.save({**load(trained.path), "last_optimizer_state": None}, folder / "averaged")
    mine = load(trained.path)
    mine["cfg"]["model"]._name = mine["cfg"]["model"].arch = "mine"
    torch.save(mine, folder / "mine")
    narrow = load(transformer)
    narrow["cfg"]["model"].max_source_positions = 1
    torch.save(narrow, folder / "narrow")
    names = ("bare", "file", "averaged", "mine", "narrow", "gone", "pipe")
    own = {"data": corpus.data, "path": trained.path, "transformer": transformer}
    return {"folder": folder, **{name: folder / name for name in names}, **own}


@pytest.mark.parametrize("words", REFUSED)
def test_options_that_are_refused(places, tmp_path, words, monkeypatch):
    """And files, before anything is written. --cpu counts where there is a GPU, too."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: "16" in words)
    name, data, *more = words.format(**places).split()
    options = (data, *more, "--cpu")
    if name == "train":
        options = training(data, tmp_path / "on", *SHORT, *more)
    line = refusal(name, *options, stdin=b"w01 " * 5000 + b"\n")
    assert fnmatchcase(line, REFUSED[words].format(**places) + "*"), line
    assert not list(tmp_path.glob("on/*"))


def test_validate_needs_no_task(trained):
    options = (trained.data, "--path", trained.path, "--cpu", "--batch-size", 8)
    said = [call("validate", *options, *more).out for more in ((), ("--task", "translation"))]
    losses = [re.findall(r"loss\W+([\d.]+)", out) for out in said]
    assert losses[0] == losses[1] != []
    parser = fairseq_options.get_eval_lm_parser()
    own = fairseq_options.parse_args_and_arch(parser, ["data", "--path", "x"])
    assert own.task == "language_modeling"


def test_data_that_is_cut_off(corpus, trained, tmp_path, monkeypatch):
    """Or altered: the type of its numbers, the number of its sentences."""
    data, ignored = shutil.copytree(corpus.data, tmp_path / "data"), []
    monkeypatch.setattr("sys.unraisablehook", ignored.append)  # for pytest prints none
    for name, damage in (
        ("test.xx-yy.xx.bin", lambda content: content[:-1]),
        ("test.xx-yy.yy.bin", lambda content: b""),
        ("test.xx-yy.xx.idx", lambda content: content[:40]),
        ("test.xx-yy.xx.idx", lambda content: content[:17] + b"\x63" + content[18:]),
        ("test.xx-yy.xx.idx", lambda content: content[:18] + b"\xff" * 8 + content[26:]),
    ):
        (data / name).write_bytes(damage((corpus.data / name).read_bytes()))
        line = refusal("generate", data, "--path", trained.path, "--cpu")
        assert line.startswith(f"{data}/{name} is "), line
        assert "prepare the data again" in line
        shutil.copy(corpus.data / name, data)
    gc.collect()
    assert not ignored


@pytest.mark.parametrize("by, said", [("hub", "cannot be built here"), ("train", "resumed from")])
def test_errors_that_no_file_is_to_blame_for(trained, tmp_path, monkeypatch, by, said):
    """They keep their type and message, and programs say in one line where they came from."""
    error = KeyError("a bug" + 999 * "!")
    load = mock.Mock(side_effect=error)
    monkeypatch.setattr("fairseq.models.BaseFairseqModel.load_state_dict", load)
    with pytest.raises(KeyError) as caught:
        if by == "hub":
            ResMLPModel.from_pretrained(trained.folder, trained.path.name, trained.data)
        else:
            call("train", *training(trained.data, tmp_path, *SHORT, "--restore-file", trained.path))
    line = in_one_line(error)
    assert caught.value is error and line.startswith(str(trained.path)) and said in line
    assert len(line) < len(str(trained.path)) + 350
    assert "KeyError" in line and in_one_line(KeyError("no note")) is None


def test_our_commands_say_it_too(capsys, monkeypatch):
    def work():
        with naming("x.pt", "does not fit its own options"):
            raise error

    error: Exception = TypeError("a 'str'")
    assert run_main(work, "plot") == 1
    said = "resmlp-mt plot: error: x.pt does not fit its own options (TypeError: a 'str'; RESMLP_MT"
    assert capsys.readouterr().err.startswith(said)
    error = AssertionError()
    assert run_main(work) == 1 and "options (AssertionError; RESM" in capsys.readouterr().err
    monkeypatch.setenv("RESMLP_MT_TRACEBACK", "1")
    with pytest.raises(AssertionError):
        run_main(work)
