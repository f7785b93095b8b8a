"""fairseq's options about the model's parts: sharing, LayerDrop, pruning, adaptive softmax."""

import pytest
import torch
from fairseq_programs import generate, hypotheses, load, train, values, weights
from reference_scores import assert_scores_are

from resmlp_mt.plot.mixing_matrices import untrained

SHORT = ("--batch-size", 8, "--max-epoch", 2)
LAST = "checkpoint_last.pt"
SIDES = ("encoder", "decoder")
SOURCE, TARGET, OUTPUT = (
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "decoder.output_projection.weight",
)


@pytest.mark.parametrize(
    "option, groups",
    [
        ("--share-all-embeddings", [{SOURCE, TARGET, OUTPUT}]),
        ("--share-decoder-input-output-embed", [{SOURCE}, {TARGET, OUTPUT}]),
        (None, [{SOURCE}, {TARGET}, {OUTPUT}]),
    ],
)
def test_sharing(corpus, tmp_path, option, groups):
    """Shared embeddings stay equal through training, others do not; all translate as scored."""
    train(corpus.data, tmp_path, *SHORT, *([option] if option else []))
    state = weights(tmp_path / LAST)
    for group in groups:
        for name in (SOURCE, TARGET, OUTPUT):
            (first, *_) = group
            assert torch.equal(state[first], state[name]) == (name in group)
    assert_scores_are(corpus.data, tmp_path / LAST)


@pytest.mark.parametrize("dropped, kept", [("encoder", "decoder"), ("decoder", "encoder")])
def test_layerdrop(corpus, tmp_path, dropped, kept):
    """A layer that is always dropped never learns; the other side's do; none is lost."""
    train(corpus.data, tmp_path, *SHORT, f"--{dropped}-layerdrop", 1.0)
    state = load(tmp_path / LAST)
    first = untrained(state).state_dict()
    layer = "{}.layers.1.feed_forward.fc1.weight".format
    assert torch.equal(state["model"][layer(dropped)], first[layer(dropped)])
    if kept == "decoder":  # with all of the decoder's layers dropped the encoder is not looked at
        assert not torch.equal(state["model"][layer(kept)], first[layer(kept)])
    assert_scores_are(corpus.data, tmp_path / LAST)


def test_layerdrop_at_times(corpus, tmp_path):
    options = ("--batch-size", 8, "--max-epoch", 1)
    never = train(corpus.data, tmp_path / "never", *options).log
    some = train(corpus.data, tmp_path / "some", *options, "--encoder-layerdrop", 0.5).log
    assert len(values(never, "loss")) == len(values(some, "loss")) == 8
    assert values(never, "loss") != values(some, "loss")


@pytest.mark.parametrize("side", SIDES)
def test_layers_to_keep(trained, side):
    """--model-overrides with layers to keep: the model without its first layer."""

    def without_first_layer(model):
        del getattr(model, side).layers[0]

    # fairseq prunes both sides or none
    keep = {f"{each}_layers_to_keep": "1" if each == side else "0,1" for each in SIDES}
    overrides = ("--model-overrides", str(keep))
    whole = assert_scores_are(trained.data, trained.path)
    pruned = assert_scores_are(trained.data, trained.path, *overrides, edit=without_first_layer)
    assert whole != pruned


def test_adaptive_softmax(corpus, tmp_path):
    log = train(
        corpus.data,
        tmp_path,
        *("--batch-size", 8, "--max-epoch", 8, "--adaptive-softmax-cutoff", "10,20"),
        criterion=("--criterion", "adaptive_loss", "--ddp-backend", "legacy_ddp"),
    ).log
    losses = values(log, "train_loss")
    assert losses[-1] < 0.8 * losses[0]
    assert_scores_are(corpus.data, tmp_path / LAST)
    assert len(hypotheses(generate(corpus.data, tmp_path / LAST))) == corpus.sizes["test"]
