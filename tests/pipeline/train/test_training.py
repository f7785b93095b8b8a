"""Trainings that are stopped and resumed, and a folder that holds one training."""

import json
import re
import shutil
from types import SimpleNamespace

import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDataset, MMapIndexedDatasetBuilder
from fairseq_programs import SMALL
from trained_models import write_other_dictionaries

from resmlp_mt.model_folder import check_dictionaries
from resmlp_mt.pipeline.train.command import TrainingOptions, TrainingProgress, parse_record
from resmlp_mt.pipeline.train.recipe import load_recipe
from resmlp_mt.pipeline.train.training import Training
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import write_json

OPTIONS = f"{SMALL} --max-source-positions 16 --max-target-positions 16 --cpu --warmup-updates 5"
OPTIONS += " --lr 0.05 --num-workers 0 --log-interval 1 --save-interval-updates 5"
UPDATES = 22


def training(corpus, out, *more, **options):
    """A run of 61 pairs, with nine updates per epoch or so."""
    options = {"tokens": 64, "max_tokens": 16, "threads": 1, "max_update": UPDATES, **options}
    options = {"arch": "resmlp_mt_tiny", "recipe": load_recipe("paper"), **options}
    more = [*OPTIONS.split(), *map(str, more)]
    return Training(corpus.data, out, TrainingOptions(fairseq_options=more, **options))


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory, trained_here):
    """A run that was never stopped."""
    run = training(corpus, tmp_path_factory.mktemp("whole") / "out")
    run.run()
    return run


def test_the_log_and_what_a_user_sees(whole, capsys):
    """Updates are counted; validations and warnings get lines. Two records in a line are none."""
    files = {path.name for path in whole.out.iterdir() if path.suffix != ".pt"}
    assert files - {".lock"} == {"train.log", "train.json"}
    lines = (whole.out / "train.log").read_text().splitlines()
    with TrainingProgress(UPDATES) as progress:
        for line in ["| WARNING | fairseq.trainer | a warning", *lines] * 2:
            progress.show(line)
        assert progress.n == UPDATES
    shown = capsys.readouterr().err
    assert shown.count("    warning: a warning\n") == 1
    assert len(re.findall(r"    model: [\d,]{5,6} parameters\n", shown)) == 1
    assert shown.count(f"update {UPDATES:6}: validation nll ") == 2 and "\r" not in shown
    assert sum("| train_inner |" in line for line in lines) == UPDATES
    train, valid = ([x for x in lines if f"| {of} |" in x][-1] for of in ("train_inner", "valid"))
    # without label smoothing the nll is the loss, logged once
    kind, found = parse_record(re.sub(r'"valid_nll_loss": "[^"]*", ', "", valid))
    assert kind == "valid" and found["valid_num_updates"] == UPDATES
    assert found["valid_nll_loss"] == found["valid_loss"] > 0
    assert parse_record(train + train) == ("", {})
    with TrainingProgress(UPDATES) as progress:  # with --eval-bleu
        progress.show(valid.replace('"valid_nll_loss"', '"valid_bleu": "7.5", "valid_nll_loss"'))
    assert " bits per token, BLEU 7.5\n" in capsys.readouterr().err


def test_what_may_change_when_a_training_resumes(whole, corpus, tmp_path):
    """The architecture, the dictionary and the seed may not; batches stay as they were."""
    before = (whole.out / "train.json").read_bytes()
    longer = training(corpus, whole.out, "--lr", 0.1, max_update=30, max_tokens=None).arguments
    assert (longer["--max-tokens"], longer["--update-freq"]) == (["16"], ["4"])
    # without it a resumed training has other batches
    assert whole.args.update_epoch_batch_itr and whole.args.log_format == "json"
    training(corpus, whole.out, "--finetune-from-model", tmp_path / "deleted.pt").check_data()
    with pytest.raises(UserError, match="holds a training run with another --arch: choose another"):
        training(corpus, whole.out, arch="resmlp_mt_small").check_data()
    with pytest.raises(UserError, match="holds a training run with another --seed: choose another"):
        training(corpus, whole.out, seed=9).check_data()
    other = SimpleNamespace(data=shutil.copytree(corpus.data, tmp_path / "data"))
    with open(other.data / "dict.xx.txt", "a") as file:
        file.write("more 1\n")
    said = "holds a training run with another dictionary: choose another"
    with pytest.raises(UserError, match=said):
        training(other, whole.out).check_data()
    assert (whole.out / "train.json").read_bytes() == before


def test_resuming_with_other_options_or_text_says_so(whole, corpus, tmp_path, capsys):
    out = shutil.copytree(whole.out, tmp_path / "out")
    longer = training(corpus, out, max_update=UPDATES + 1, max_tokens=32)
    longer.run()
    assert "warning" not in capsys.readouterr().err
    shorter = SimpleNamespace(data=shutil.copytree(corpus.data, tmp_path / "data"))
    for path in shorter.data.glob("train.xx-yy.*.idx"):
        prefix = str(path.with_suffix(""))
        pairs = list(map(torch.clone, MMapIndexedDataset(prefix)))[:-1]
        builder = MMapIndexedDatasetBuilder(f"{prefix}.bin")
        for pair in pairs:
            builder.add_item(pair)
        builder.finalize(str(path))
    options = ("--activation-fn", "relu", "--lr", 0.01)
    training(shorter, out, *options, max_update=UPDATES + 2).run()
    said = f"warning: {out} holds a training run with another --activation-fn, --lr, text: "
    assert said in capsys.readouterr().err
    training(shorter, out, *options, max_update=UPDATES + 3).run()
    assert "warning" not in capsys.readouterr().err
    before = (out / "train.json").read_text()
    with pytest.raises(UserError, match="fairseq-train failed"):
        training(shorter, out, "--token-mixing", "linear", max_update=UPDATES + 4).run()
    assert "another --activation-fn, --lr, --token-mixing: " in capsys.readouterr().err
    assert (out / "train.json").read_text() == before  # of the checkpoint that is still there
    made_of = json.loads(before)
    del made_of["data"]["text"]  # as older ones
    write_json(out / "train.json", made_of)
    training(corpus, out, max_update=UPDATES + 4).run()
    assert "another --activation-fn, --lr: " in capsys.readouterr().err


@pytest.mark.parametrize("beside", ["train.json", "dict.yy.txt", "dict.zz.txt"])
def test_a_start_from_a_model_of_other_dictionaries_is_refused(whole, corpus, tmp_path, beside):
    """The same tokens in another order: every number would mean another token."""
    other = SimpleNamespace(data=shutil.copytree(corpus.data, tmp_path / "data"))
    start = whole.out / "checkpoint_last.pt"
    if beside != "train.json":
        start = shutil.copy(start, tmp_path / "model.pt")
        for path in (corpus.data / "dict.xx.txt", corpus.data / "dict.yy.txt"):
            # of a model for another pair, too
            shutil.copy(path, tmp_path / path.name.replace(".yy.", beside[4:8]))
    begin = ("--finetune-from-model", start)
    training(other, tmp_path / "same", *begin).check_data()
    write_other_dictionaries(corpus.data, other.data)
    with pytest.raises(UserError, match="was trained with other dictionaries than those of"):
        training(other, tmp_path / "new", *begin).check_data()


def test_two_dictionaries_of_another_pair_do_not_count(tmp_path):
    """Which of them was the source is not known."""
    data = tmp_path / "data"
    data.mkdir()
    for name in ("dict.en", "dict.de", "data/dict.en", "data/dict.nl"):
        (tmp_path / f"{name}.txt").write_text("x" if name.endswith("en") else "y")
    for languages in (("en", "nl"), ("nl", "en")):  # one of them as the files are listed
        check_dictionaries(tmp_path / "model.pt", data, languages)


def test_a_batch_holds_the_longest_sentence(corpus, tmp_path):
    """fairseq would fail at the first validation. Those beyond the positions do not count."""
    sides = [(corpus.text / f"train.{side}").read_text().splitlines() for side in ("xx", "yy")]
    sizes = [[len(line.split()) + 1 for line in side] for side in sides]
    longest = max(max(pair) for pair in zip(*sizes) if max(pair) <= 16)
    training(corpus, tmp_path, tokens=longest, max_tokens=longest).check_data()
    short = {"tokens": longest - 1, "max_tokens": longest - 1}
    said = f"--max-tokens {longest - 1}: a sentence of .* has {longest} tokens: give at least "
    remedies = {longest - 1: f"{longest} and --tokens at least {longest}, or"}
    remedies[2 * longest - 2] = f"{longest}, or after --"
    for tokens, remedy in remedies.items():
        with pytest.raises(UserError, match=f"{said}{remedy}"):
            training(corpus, tmp_path, **{**short, "tokens": tokens}).check_data()
    fewer = ("--max-source-positions", longest - 1, "--max-target-positions", longest - 1)
    for positions in (fewer, fewer[2:]):  # on both sides, or on one
        training(corpus, tmp_path, *positions, **short).check_data()


def test_a_record_of_another_shape_is_refused(corpus, tmp_path):
    """Once there is a checkpoint; before that, options may change."""
    write_json(tmp_path / "train.json", {"settings": {"--arch": ["other"]}, "data": {}})
    training(corpus, tmp_path).check_data()
    (tmp_path / "checkpoint_last.pt").touch()
    for wrong in ({}, 5, {"--arch": "", "--max-tokens": 1}):
        write_json(tmp_path / "train.json", {"settings": wrong, "data": {}})
        with pytest.raises(UserError, match="train.json is damaged or altered"):
            training(corpus, tmp_path)
