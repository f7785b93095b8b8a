"""fairseq's options of training and of the model's parts do to a ResMLP what they say."""

import re

import pytest
import torch
from fairseq.checkpoint_utils import load_ema_from_checkpoint
from fairseq_programs import call, generate, hypotheses, load, train, values, weights
from reference_scores import assert_scores_are

from resmlp_mt.plot.matrices import untrained

SHORT = ("--batch-size", 8, "--max-epoch", 1)
LAST = "checkpoint_last.pt"
SIDES = ("encoder", "decoder")
SOURCE, TARGET, OUTPUT = (
    "encoder.embed_tokens.weight",
    "decoder.embed_tokens.weight",
    "decoder.output_projection.weight",
)


def assert_same_weights(folder, other, tolerance=0.0):
    some, others = weights(folder / LAST), weights(other / LAST)
    assert some.keys() == others.keys()
    for name in some:
        if name.endswith("k_proj.bias") and tolerance:
            continue  # it moves a softmax as a whole: its gradient is rounding, enlarged by Adagrad
        torch.testing.assert_close(some[name], others[name], rtol=tolerance, atol=tolerance)


def test_checkpoint_activations(corpus, tmp_path):
    """Layers computed again for the backward pass: same losses and weights, dropout included."""
    plain, again = tmp_path / "plain", tmp_path / "again"
    options = (*SHORT, "--dropout", 0.2)
    log = train(corpus.data, plain, *options).log
    log_again = train(corpus.data, again, *options, "--checkpoint-activations").log
    assert load(again / LAST)["cfg"]["model"].checkpoint_activations
    assert len(values(log, "loss")) == 8
    assert values(log, "loss") == values(log_again, "loss")
    # gradients of the encoder's output are added in another order: rounding, enlarged by Adagrad
    assert_same_weights(plain, again, 1e-5)


def test_ema(corpus, tmp_path):
    """--store-ema keeps the moving average, and what it keeps can be translated with."""
    options = ("--max-update", 3, "--save-interval-updates", 1)
    options += ("--store-ema", "--ema-decay", 0.75, "--ema-fp32")
    train(corpus.data, tmp_path, "--batch-size", 8, *options)
    states = [load(tmp_path / f"checkpoint_1_{update}.pt") for update in (2, 3)]
    before, after = (state["extra_state"]["ema"] for state in states)
    assert any("token_mixing.mixing.weight" in name for name in after)
    for name, weight in states[1]["model"].items():
        if name in after and "version" not in name:
            torch.testing.assert_close(after[name], 0.75 * before[name] + 0.25 * weight)
    average = load_ema_from_checkpoint(str(tmp_path / LAST))["model"]
    torch.save({**load(tmp_path / LAST), "model": average}, tmp_path / "average.pt")
    out, out_last = (generate(corpus.data, tmp_path / name) for name in ("average.pt", LAST))
    assert out.count("\nH-") == 11 and out != out_last


def test_eval_bleu(corpus, tmp_path):
    """BLEU while training is fairseq-generate's, changes nothing, and can choose the best."""
    watched, plain = tmp_path / "watched", tmp_path / "plain"
    options = ("--batch-size", 8, "--max-epoch", 12, "--validate-interval", 4)
    options = (*options, "--valid-subset", "train", "--ignore-unused-valid-subsets")
    watching = ("--eval-bleu", "--eval-bleu-args", '{"beam": 2, "max_len_b": 10}')
    watching += ("--eval-bleu-remove-bpe", "--best-checkpoint-metric", "bleu")
    watching += ("--maximize-best-checkpoint-metric",)
    log = train(corpus.data, watched, *options, *watching).log
    train(corpus.data, plain, *options)
    assert_same_weights(watched, plain)
    bleu = values(log, "train_bleu")  # the name of the subset
    assert len(bleu) == 3 and bleu[-1] > 1
    best = load(watched / "checkpoint_best.pt")["extra_state"]
    assert best["best"] == pytest.approx(max(bleu), abs=0.01)

    out = generate(
        *(corpus.data, watched / LAST, "--gen-subset", "train", "--beam", 2),
        *("--max-len-b", 10, "--scoring", "sacrebleu", "--post-process"),
    )
    assert f"BLEU = {bleu[-1]:.2f}" in out or f'"score": {bleu[-1]:.1f}' in out, out[-300:]

    # the counts that BLEU is made of are in the checkpoint, and training resumes from there
    log = train(corpus.data, watched, *options, *watching, "--max-epoch", 16).log
    assert len(values(log, "train_bleu")) == 1


def test_validate(trained):
    """fairseq-validate computes the loss of the last validation in training."""
    result = call(
        *("validate", trained.data, "--path", trained.path, "--batch-size", 8, "--cpu"),
        *("--task", "translation", "--log-format", "json"),
    )
    (loss,) = re.findall(r'"valid_loss": "([\d.]+)"', result.out)
    assert float(loss) == values(trained.log, "valid_loss")[-1]


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
