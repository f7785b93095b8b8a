"""Where the plugin doesn't warn of a training by Adagrad, its loss falls."""

import statistics

import pytest
from fairseq_programs import preprocess, train, values
from trained_models import write_corpus

OPTIONS = ("--arch", "resmlp_mt_6", "--encoder-embed-dim", 64, "--encoder-ffn-embed-dim", 128)
OPTIONS += ("--decoder-attention-heads", 4, "--share-all-embeddings", "--dropout", 0.15)
OPTIONS += ("--layerscale-init", 0.2, "--lr", 0.2, "--batch-size", 16)
OPTIONS += ("--no-save", "--disable-validation", "--max-update", 600)


@pytest.mark.soak
@pytest.mark.parametrize("layers", [6, 12, 24])
@pytest.mark.parametrize("warm_up", [32_000, 400])
def test_warm_up_prevents_divergence(tmp_path, layers, warm_up):
    write_corpus(tmp_path, {"train": 600, "valid": 8})
    data = preprocess(tmp_path / "bin", train=tmp_path / "train", valid=tmp_path / "valid")
    depth = ("--encoder-layers", layers, "--decoder-layers", layers, "--warmup-updates", warm_up)
    result = train(data, tmp_path / "save", *OPTIONS, *depth)
    assert "likely to diverge" not in result.log
    losses = values(result.log, "loss")
    assert statistics.mean(losses[-20:]) < losses[0]
