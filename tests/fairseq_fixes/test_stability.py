"""Trainings that diverge, what their users read, and the types that trainings compute with."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq_programs import refusal, training
from helpers import SMALL, build_model, pad_batch, random_sentences, shift

from resmlp_mt.fairseq_fixes import trainings
from resmlp_mt.loss import AUTOCAST
from resmlp_mt.model.architectures import ARCHITECTURES
from resmlp_mt_runtime.errors import UserError

SHORT = ("--batch-size", 8, "--max-update", 3, "--no-save")
TRANSFORMER = ("--arch", "transformer", "--encoder-attention-heads", 2)


@torch.no_grad()
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_named_architectures_begin_small(arch):
    """Nothing normalizes: what LayerScale lets grow from layer to layer reaches the last one."""
    own = dict.fromkeys(set(SMALL) - {"dropout", "max_source_positions", "max_target_positions"})
    model, dictionary = build_model(arch, randomize=False, share_all_embeddings=True, **own)
    source = pad_batch(random_sentences(dictionary, (20, 20)), dictionary, left=True)
    targets = pad_batch([shift(s) for s in random_sentences(dictionary, (20, 18))], dictionary)
    assert 0.5 < model(source, None, targets, features_only=True)[0].std() < 4


def test_divergence_ends_in_one_line(corpus, tmp_path):
    options = training(corpus.data, tmp_path, *SHORT, "--lr", 1e8, criterion=())
    said = refusal("train", *options)
    assert said.startswith("training has diverged: the gradients of update ")
    assert f"{tmp_path}/crash.pt" in said and (tmp_path / "crash.pt").exists()
    assert said.endswith("lower --lr, raise --warmup-updates, or set --clip-norm")


# of several workers fairseq compares the norms first, and prints them
NORMS = "Fatal error: gradients are inconsistent between workers.\ngrad_norm across the workers:\n"


@pytest.mark.parametrize(
    "text, said",
    [
        ("gradients are Nan/Inf", "update 7 are not finite (the weights before it: save/crash.pt)"),
        (f"{NORMS}rank   0 = nan", "of update 7 are not finite"),
        (f"{NORMS}rank   0 = inf", "of update 7 are not finite"),
        ("AMP: Minimum loss scale reached (0.0001). Your loss", "minimum loss scale"),
        ("division by zero", None),
        (f"{NORMS}rank   0 = 1.25000000", None),
    ],
)
def test_what_is_explained(text, said):
    def fail(trainer):
        raise FloatingPointError(text)

    checkpoint = SimpleNamespace(save_dir="save")
    trainer = SimpleNamespace(get_num_updates=lambda: 6, cfg=SimpleNamespace(checkpoint=checkpoint))
    with pytest.raises(UserError if said else FloatingPointError) as caught:
        trainings.train_step(fail, trainer)
    assert (said or text) in str(caught.value)


@pytest.mark.parametrize("kind", ["linear", "gated", "conv"])
def test_products_are_bfloat16_and_gradients_float32(kind, monkeypatch):
    model, dictionary = build_model(token_mixing=kind, std=0.1)
    sentences = random_sentences(dictionary, (5, 9, 3))
    source = pad_batch(sentences, dictionary, left=True)
    previous = pad_batch([shift(s) for s in sentences], dictionary)
    seen, gradients = [], []
    model.decoder.layers[0].feed_forward.fc1.register_forward_hook(
        lambda module, inputs, output: seen.append(output.dtype)
    )

    def criterion(model, sample):
        logits, _ = model(source, None, previous)
        return logits.float().logsumexp(-1).square().mean(), 1, {}

    def step(precision):
        monkeypatch.setenv(AUTOCAST, precision)
        model.zero_grad()
        optimizer = SimpleNamespace(backward=lambda loss: loss.backward())
        loss, _, _ = FairseqTask.train_step(None, {}, model, criterion, optimizer, 0)
        of_all = [parameter.grad for parameter in model.parameters()]
        assert {loss.dtype, *(gradient.dtype for gradient in of_all)} == {torch.float32}
        gradients.append(torch.cat([gradient.flatten() for gradient in of_all]))

    step("")
    step("bfloat16")
    assert seen == [torch.float32, torch.bfloat16] and not torch.equal(*gradients)
    assert torch.cosine_similarity(*gradients, dim=0) > 0.99
    with pytest.raises(UserError, match=f"{AUTOCAST}=float16: only bfloat16"):
        step("float16")
