"""Programs of fairseq: a ResMLP is found, trains, loads and scores like its models. Results that
fairseq gets wrong; what is replaced in it has a test."""

import ast
import math
import re
import shutil
from pathlib import Path

import fairseq
import numpy as np
import pytest
import torch
from fairseq.data import data_utils
from fairseq.ngram_repeat_block import NGramRepeatBlock
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
    how = ("--beam", 2, "--max-len-b", 10, "--scoring", "sacrebleu", "--post-process")
    out = generate(corpus.data, watched / LAST, "--gen-subset", "train", *how)
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


def test_shards_are_parts_of_the_text(trained):
    whole = hypotheses(generate(trained.data, trained.path, "--batch-size", 2))
    parts = [
        hypotheses(generate(trained.data, trained.path, "--batch-size", 2, *shard))
        for shard in (("--num-shards", 3, "--shard-id", number) for number in range(3))
    ]
    assert all(parts) and sorted(sum(map(list, parts), [])) == sorted(whole)
    assert {n: found for part in parts for n, found in part.items()} == whole


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


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 63, 100, 1003])
@pytest.mark.parametrize("max_sentences", [None, 5, 16])
def test_every_sentence_is_in_a_batch_once(count, max_sentences):
    lengths = np.random.default_rng(count).integers(1, 60, count)
    order = np.argsort(lengths, kind="stable")
    batches = data_utils.batch_by_size(order, None, lengths, 500, max_sentences, 8)
    assert [i for batch in batches for i in batch] == order.tolist()
    assert all(len(batch) * lengths[batch].max() <= 500 for batch in batches)
    assert max_sentences is None or all(len(batch) <= max_sentences for batch in batches)


@pytest.mark.parametrize("size, banned", [(1, [5, 6]), (2, [6]), (3, [])])
def test_repeated_ngrams_are_blocked_on_a_cpu(size, banned):
    """The hypothesis is 5 6 5 so far, in a buffer of ten tokens; 2 begins it and may end it."""
    tokens = torch.ones(1, 10, dtype=torch.long)
    tokens[0, :4] = torch.tensor([2, 5, 6, 5])
    blocked = NGramRepeatBlock(size, use_extension=False)(tokens, torch.zeros(1, 9), 1, 1, 3)
    assert (blocked[0] == -torch.inf).nonzero().flatten().tolist() == banned


def test_each_replacement_names_a_test_that_exists():
    """In its docstring, on the condition under which it can go."""
    texts = {path.name: path.read_text("utf-8") for path in Path("tests").rglob("test_*.py")}
    everything = "".join(texts.values())
    found = []
    for path in Path("resmlp_mt").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if any("replace(" in ast.unparse(each) for each in getattr(node, "decorator_list", ())):
                reason = ast.get_docstring(node)
                named = re.findall(r"\btest_\w+(?:\.py)?", reason)
                assert named and reason.splitlines()[0].endswith("."), node.name
                for name in named:
                    assert name in texts or f"def {name}(" in everything, (node.name, name)
                found.append(node.name)
    assert len(found) >= 25
    assert data_utils.batch_by_size.__wrapped__.__module__ == "fairseq.data.data_utils"
