"""Programs of fairseq: a ResMLP is found, trains, loads and scores like its models."""

import math
import re
import shutil
from pathlib import Path

import fairseq
import pytest
from fairseq_programs import LAST, ROOT, generate, hypotheses, load, process, train, unlike, values
from processes import forked


def test_eval_bleu(corpus, tmp_path):
    """BLEU while training is fairseq-generate's, changes nothing, and is resumed."""
    watched, plain = tmp_path / "watched", tmp_path / "plain"
    options = ("--batch-size", 8, "--max-epoch", 6, "--validate-interval", 3)
    options = (*options, "--valid-subset", "train", "--ignore-unused-valid-subsets")
    watching = ("--eval-bleu", "--eval-bleu-args", '{"beam": 2, "max_len_b": 10}')
    watching += ("--eval-bleu-remove-bpe",)
    log = train(corpus.data, watched, *options, *watching).log
    train(corpus.data, plain, *options)
    assert unlike(watched / LAST, plain / LAST) == []
    bleu = values(log, "train_bleu")  # the name of the subset
    assert len(bleu) == 2 and bleu[-1] > 1
    out = generate(
        *(corpus.data, watched / LAST, "--gen-subset", "train", "--beam", 2),
        *("--max-len-b", 10, "--scoring", "sacrebleu", "--post-process"),
    )
    assert f"BLEU = {bleu[-1]:.2f}" in out, out[-300:]

    # the counts that BLEU is made of are in the checkpoint, and training resumes from there
    log = train(corpus.data, watched, *options, *watching, "--max-epoch", 9).log
    assert len(values(log, "train_bleu")) == 1


def test_data_in_several_parts(corpus, tmp_path):
    """As for back-translation: train1 beside train; and valid1 beside valid."""
    data = shutil.copytree(corpus.data, tmp_path / "data")
    for path in [*data.glob("train.*"), *data.glob("test.*")]:
        name = path.name.replace("train.", "train1.").replace("test.", "valid1.")
        shutil.copy(path, data / name)
    options = ("--batch-size", 8, "--max-epoch", 1)
    log = train(data, tmp_path / "each", *options, "--valid-subset", "valid,valid1").log
    assert len(values(log, "loss")) == math.ceil(2 * corpus.sizes["train"] / 8)
    assert len(values(log, "valid_loss")) == len(values(log, "valid1_loss")) == 1
    log = train(data, tmp_path / "together", *options, "--combine-valid-subsets").log
    assert len(values(log, "valid_loss")) == 1 and "valid1_loss" not in log
    with pytest.raises(ValueError, match="'valid1'. will be ignored"):
        train(data, tmp_path / "first", *options)


def test_trained_by_hydra(corpus, tmp_path):
    # fairseq has Adagrad for hydra only by its bare name
    words = f"""
    common.cpu=true common.log_interval=1 common.log_format=json
    task=translation task.data={corpus.data} criterion=cross_entropy +model._name=resmlp_mt_6
    +model.encoder_layers=2 +model.decoder_layers=2 +model.encoder_embed_dim=16
    +model.encoder_ffn_embed_dim=32 +model.decoder_attention_heads=2 +model.token_mixing_heads=2
    +model.max_source_positions=32 +model.max_target_positions=32
    +model.no_token_positional_embeddings=true +optimizer._name=adagrad +optimizer.lr=[0.05]
    +optimizer.weight_decay=0 optimization.lr=[0.05] optimization.max_epoch=2
    lr_scheduler.warmup_updates=5 dataset.batch_size=8 dataset.num_workers=0
    checkpoint.save_dir={tmp_path / "save"} hydra.run.dir={tmp_path}
    """.split()
    words += [f"common.user_dir={ROOT}/resmlp_mt"]  # which may have spaces
    forked("fairseq_cli.hydra_train", words, tmp_path / "log").ends_well()
    said = (tmp_path / "log").read_text()
    losses = [float(x) for x in re.findall(r'"train_loss": "([\d.]+)"', said)]
    assert len(losses) == 2 and losses[1] < losses[0]
    path = tmp_path / "save" / LAST
    state = load(path)
    assert isinstance(state["cfg"]["model"], dict)
    matrix = "encoder.layers.{}.token_mixing.mixing.weight".format
    assert state["model"][matrix(1)].shape == (2, 32, 32) and matrix(2) not in state["model"]
    assert len(hypotheses(generate(corpus.data, path))) == corpus.sizes["test"]


IMPORTED_FIRST = """
import builtins, sys
builtins.help = None  # fairseq uses it, and -S leaves it out
hooks = list(sys.meta_path)
import resmlp_mt
assert sys.meta_path == hooks
import resmlp_mt_runtime
assert resmlp_mt_runtime.__file__.startswith(sys.argv[1].split(":")[0][: -len("resmlp_mt")])
heavy = {"torch", "fairseq", "numpy", "sentencepiece", "matplotlib", "resmlp_mt.text"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
sys.modules.update(sentencepiece=None, matplotlib=None)  # neither the plugin nor fairseq needs them

from argparse import Namespace
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.utils import import_user_module
for path in sys.argv[1].split(":"):
    import_user_module(Namespace(user_dir=path))
    ours = {name: model for name, model in ARCH_MODEL_REGISTRY.items() if "resmlp" in name}
    assert MODEL_REGISTRY["resmlp_mt"] is resmlp_mt.ResMLPModel
    assert "resmlp_mt_6" in ours and set(ours.values()) == {resmlp_mt.ResMLPModel}

from fairseq_cli.generate import cli_main
sys.argv = ["fairseq-generate", *sys.argv[2:]]
cli_main()
"""


def test_imported_before_fairseq(trained, tmp_path):
    """Importing loads nothing heavy; every name of the folder registers the model once."""
    user_dir, site = tmp_path / "resmlp_mt", Path(fairseq.__file__).parent.parent
    for name in ("resmlp_mt", "runtime/resmlp_mt_runtime"):  # which is never installed
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    (tmp_path / "site").mkdir()
    result = process(
        "-S",  # without what site-packages link to
        *("-c", IMPORTED_FIRST, f"{user_dir}:{user_dir}/:{tmp_path}/site/../resmlp_mt"),
        *(trained.data, "--path", trained.path, "--beam", 4, "--cpu", "--user-dir", user_dir),
        cwd=tmp_path,
        path=f"{tmp_path}:{site}",
    )
    assert result.returncode == 0, result.stderr[-2000:]
    found, expected = map(hypotheses, (result.stdout, generate(trained.data, trained.path)))
    assert found.keys() == expected.keys()
    for number, ((score, words),) in expected.items():
        assert found[number] == [(pytest.approx(score, abs=1e-3), words)]
