"""fairseq's options of training and of the model's parts do to a ResMLP what they say."""

import re

import torch
from fairseq.checkpoint_utils import load_ema_from_checkpoint
from fairseq_programs import call, generate, hypotheses, load, train, values, weights
from reference_scores import assert_scores_are

LAST = "checkpoint_last.pt"


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
    """BLEU while training is fairseq-generate's, changes nothing, and is resumed."""
    watched, plain = tmp_path / "watched", tmp_path / "plain"
    options = ("--batch-size", 8, "--max-epoch", 12, "--validate-interval", 6)
    options = (*options, "--valid-subset", "train", "--ignore-unused-valid-subsets")
    watching = ("--eval-bleu", "--eval-bleu-args", '{"beam": 2, "max_len_b": 10}')
    watching += ("--eval-bleu-remove-bpe",)
    log = train(corpus.data, watched, *options, *watching).log
    train(corpus.data, plain, *options)
    some, others = weights(watched / LAST), weights(plain / LAST)
    assert all(torch.equal(some[name], others[name]) for name in others)
    bleu = values(log, "train_bleu")  # the name of the subset
    assert len(bleu) == 2 and bleu[-1] > 1
    out = generate(
        *(corpus.data, watched / LAST, "--gen-subset", "train", "--beam", 2),
        *("--max-len-b", 10, "--scoring", "sacrebleu", "--post-process"),
    )
    assert f"BLEU = {bleu[-1]:.2f}" in out or f'"score": {bleu[-1]:.1f}' in out, out[-300:]

    # the counts that BLEU is made of are in the checkpoint, and training resumes from there
    log = train(corpus.data, watched, *options, *watching, "--max-epoch", 18).log
    assert len(values(log, "train_bleu")) == 1


def test_validate(trained):
    """fairseq-validate computes the loss of the last validation in training."""
    result = call(
        *("validate", trained.data, "--path", trained.path, "--batch-size", 8, "--cpu"),
        *("--task", "translation", "--log-format", "json"),
    )
    (loss,) = re.findall(r'"valid_loss": "([\d.]+)"', result.out)
    assert float(loss) == values(trained.log, "valid_loss")[-1]


def test_shared_embeddings(world):
    """One for source, target and output: trained, they are loaded as one and score the same."""
    assert_scores_are(world.data, world.checkpoint)


def test_adaptive_softmax(corpus, tmp_path):
    options = ("--batch-size", 8, "--max-epoch", 8, "--adaptive-softmax-cutoff", "10,20")
    criterion = ("--criterion", "adaptive_loss", "--ddp-backend", "legacy_ddp")
    losses = values(train(corpus.data, tmp_path, *options, criterion=criterion).log, "train_loss")
    assert losses[-1] < 0.8 * losses[0]
    assert_scores_are(corpus.data, tmp_path / LAST)
    assert len(hypotheses(generate(corpus.data, tmp_path / LAST))) == corpus.sizes["test"]
