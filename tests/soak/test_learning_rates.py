"""The paper's learning rate does not diverge after its warm-up; where a shorter one or none lets a
training diverge, the plugin has warned."""

import statistics

import pytest
from fairseq_programs import preprocess, train, values
from trained_models import write_corpus

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes import trainings

pytestmark = pytest.mark.soak
DEPTHS = pytest.mark.parametrize("layers", [6, 12, 24])
RATE = 0.2


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    write_corpus(folder, {"train": 600, "valid": 8})
    return preprocess(folder / "bin", train=folder / "train", valid=folder / "valid")


def diverges(data, folder, layers, rate, warm_up, updates, channels=64):
    """Whether a training meets numbers that are not finite, or its loss ends above its first."""
    options = ("--arch", "resmlp_mt_6", "--encoder-layers", layers, "--decoder-layers", layers)
    options += ("--encoder-embed-dim", channels, "--encoder-ffn-embed-dim", 2 * channels)
    options += ("--decoder-attention-heads", 4, "--share-all-embeddings", "--dropout", 0.15)
    options += ("--layerscale-init", 0.2, "--lr", rate, "--warmup-updates", warm_up)
    options += ("--max-update", updates, "--batch-size", 16, "--no-save", "--disable-validation")
    try:
        losses = values(train(data, folder, *options).log, "loss")
    except UserError as error:
        assert "training has diverged" in str(error)
        return True
    return statistics.mean(losses[-20:]) > losses[0]


@DEPTHS
@pytest.mark.parametrize("warm_up, updates", [(32_000, 1000), (400, 600)])
def test_warm_up_prevents_it(data, tmp_path, layers, warm_up, updates):
    assert not diverges(data, tmp_path, layers, RATE, warm_up, updates)


@DEPTHS
@pytest.mark.parametrize("rate, warm_up", [(RATE, 0), (RATE, 30), (RATE, 100), (0.05, 0)])
def test_it_is_warned_of(data, tmp_path, monkeypatch, layers, rate, warm_up):
    warned = []
    monkeypatch.setattr(trainings.logger, "warning", lambda *said: warned.append(said))
    assert not diverges(data, tmp_path, layers, rate, warm_up, warm_up + 110) or warned
