"""fairseq's training options do to a ResMLP what they say."""

import re

import pytest
import torch
from fairseq.checkpoint_utils import load_ema_from_checkpoint
from fairseq_programs import call, generate, load, train, values, weights

SHORT = ("--batch-size", 8, "--max-epoch", 1)
LAST = "checkpoint_last.pt"


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


def test_update_freq(corpus, tmp_path):
    """Two batches of 4 an update are one of 8; --curriculum keeps them in order."""
    once, twice = tmp_path / "once", tmp_path / "twice"
    options = ("--max-epoch", 2, "--curriculum", 9)
    log = train(corpus.data, once, *options, "--batch-size", 8).log
    log_twice = train(corpus.data, twice, *options, "--batch-size", 4, "--update-freq", 2).log
    assert len(values(log, "loss")) == 16  # 61 sentences: the last update has 5
    assert values(log, "loss") == pytest.approx(values(log_twice, "loss"), abs=2e-3)
    assert_same_weights(once, twice, 1e-4)


def test_ema(corpus, tmp_path):
    """--store-ema keeps the moving average, and what it keeps can be translated with."""
    train(
        corpus.data,
        tmp_path,
        *("--batch-size", 8, "--max-update", 3, "--store-ema", "--ema-decay", 0.75, "--ema-fp32"),
        *("--save-interval-updates", 1),
    )
    states = [load(tmp_path / f"checkpoint_1_{update}.pt") for update in (2, 3)]
    before, after = (state["extra_state"]["ema"] for state in states)
    for name, weight in states[1]["model"].items():
        if name in after and "version" not in name:
            torch.testing.assert_close(after[name], 0.75 * before[name] + 0.25 * weight)
    assert any("token_mixing.mixing.weight" in name for name in after)

    average = tmp_path / "average.pt"
    state = load_ema_from_checkpoint(str(tmp_path / LAST))
    torch.save({**load(tmp_path / LAST), "model": state["model"]}, average)
    out, out_last = (generate(corpus.data, path) for path in (average, tmp_path / LAST))
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
