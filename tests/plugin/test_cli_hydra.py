"""fairseq-hydra-train trains a ResMLP, and what it saved is loaded like any other checkpoint."""

import re

from fairseq_programs import PACKAGE, generate, hypotheses, load, process
from reference_scores import assert_scores_are


def test_trained_by_hydra(corpus, tmp_path):
    result = process(
        *("-m", "fairseq_cli.hydra_train"),
        *(f"common.user_dir={PACKAGE}", "common.cpu=true", "common.log_interval=1"),
        *("common.log_format=json", "task=translation", f"task.data={corpus.data}"),
        *("+model._name=resmlp_mt_tiny", "+model.encoder_layers=2", "+model.decoder_layers=2"),
        *("+model.encoder_embed_dim=16", "+model.encoder_ffn_embed_dim=32"),
        *("+model.decoder_attention_heads=2", "+model.max_source_positions=32"),
        *("+model.max_target_positions=32", "+model.token_mixing_heads=2"),
        # fairseq has Adagrad for hydra only by its bare name
        *("+optimizer._name=adagrad", "+optimizer.lr=[0.05]", "+optimizer.weight_decay=0"),
        *("optimization.lr=[0.05]", "optimization.max_epoch=2", "lr_scheduler.warmup_updates=5"),
        *("dataset.batch_size=8", "dataset.num_workers=0"),
        *("criterion=cross_entropy", f"checkpoint.save_dir={tmp_path / 'save'}"),
        cwd=tmp_path,
    )
    assert result.returncode == 0, (result.stdout + result.stderr)[-2000:]
    losses = [float(x) for x in re.findall(r'"train_loss": "([\d.]+)"', result.stdout)]
    assert len(losses) == 2 and losses[1] < losses[0]

    path = tmp_path / "save" / "checkpoint_last.pt"
    state = load(path)
    assert isinstance(state["cfg"]["model"], dict)
    matrix = "encoder.layers.{}.token_mixing.mixing.weight".format
    assert state["model"][matrix(1)].shape == (2, 32, 32) and matrix(2) not in state["model"]
    assert len(hypotheses(generate(corpus.data, path))) == corpus.sizes["test"]
    assert_scores_are(corpus.data, path)
