"""fairseq-hydra-train trains a ResMLP, and what it saved is loaded like any other checkpoint."""

import re

import pytest
from fairseq_programs import ROOT, generate, hypotheses, load, process, weights
from reference_scores import assert_scores_are


@pytest.fixture(scope="module")
def hydra_run(corpus, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hydra")
    result = process(
        *("-m", "fairseq_cli.hydra_train"),
        *(f"common.user_dir={ROOT / 'resmlp_mt'}", "common.cpu=true", "common.log_interval=1"),
        *("common.log_format=json", "task=translation", f"task.data={corpus.data}"),
        *("+model._name=resmlp_mt_tiny", "+model.encoder_layers=2", "+model.decoder_layers=2"),
        *("+model.encoder_embed_dim=16", "+model.encoder_ffn_embed_dim=32"),
        *("+model.decoder_attention_heads=2", "+model.max_source_positions=32"),
        *("+model.max_target_positions=32", "+model.token_mixing_heads=2"),
        # fairseq has Adagrad for hydra only by its bare name
        *("+optimizer._name=adagrad", "+optimizer.lr=[0.05]", "+optimizer.weight_decay=0"),
        *("optimization.lr=[0.05]", "optimization.max_epoch=2", "lr_scheduler.warmup_updates=5"),
        *("dataset.batch_size=8", "dataset.num_workers=0"),
        *("criterion=cross_entropy", f"checkpoint.save_dir={folder / 'save'}"),
        cwd=folder,
    )
    return result, folder / "save" / "checkpoint_last.pt"


def test_trains(hydra_run):
    result, path = hydra_run
    assert result.returncode == 0, (result.stdout + result.stderr)[-2000:]
    losses = [float(x) for x in re.findall(r'"train_loss": "([\d.]+)"', result.stdout)]
    assert len(losses) == 2 and losses[1] < losses[0]


def test_options_reach_the_model(hydra_run):
    _, path = hydra_run
    state = weights(path)
    assert state["encoder.layers.1.token_mixing.mixing.weight"].shape == (2, 32, 32)
    assert "encoder.layers.2.token_mixing.mixing.weight" not in state
    assert isinstance(load(path)["cfg"]["model"], dict)


def test_generates(hydra_run, corpus):
    _, path = hydra_run
    assert len(hypotheses(generate(corpus.data, path))) == corpus.sizes["test"]
    assert_scores_are(corpus.data, path)
