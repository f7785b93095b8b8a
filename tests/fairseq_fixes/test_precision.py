"""What ``--precision`` asks fairseq-train for, by variables."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.tasks.fairseq_task import FairseqTask
from helpers import build_model, pad_batch, random_sentences, shift

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes.trainings import AUTOCAST, MATMUL, set_matmul_precision


def train_step(model, dictionary):
    """A step of fairseq-train: the type of what a linear layer returned, and the gradients."""
    sentences = random_sentences(dictionary, (5, 9, 3))
    source = pad_batch(sentences, dictionary, left=True)
    previous = pad_batch([shift(s) for s in sentences], dictionary)
    seen = []

    def criterion(model, sample):
        logits, _ = model(source, None, previous)
        return logits.float().logsumexp(-1).square().mean(), 1, {}

    handle = model.decoder.layers[0].feed_forward.fc1.register_forward_hook(
        lambda module, inputs, output: seen.append(output.dtype)
    )
    model.zero_grad()
    optimizer = SimpleNamespace(backward=lambda loss: loss.backward())
    loss, _, _ = FairseqTask.train_step(None, {}, model, criterion, optimizer, 0)
    handle.remove()
    assert loss.dtype == torch.float32
    return seen[0], [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("kind", ["linear", "gated", "conv"])
def test_products_are_bfloat16_and_gradients_float32(kind, monkeypatch):
    model, dictionary = build_model(token_mixing=kind, std=0.1)
    monkeypatch.delenv(AUTOCAST, raising=False)
    before, exact = train_step(model, dictionary)
    monkeypatch.setenv(AUTOCAST, "bfloat16")
    now, rounded = train_step(model, dictionary)
    assert (before, now) == (torch.float32, torch.bfloat16)
    assert all(gradient.dtype == torch.float32 for gradient in rounded)
    whole = [torch.cat([g.flatten() for g in gradients]) for gradients in (exact, rounded)]
    assert not torch.equal(*whole)
    assert torch.cosine_similarity(*whole, dim=0) > 0.99
    monkeypatch.setenv(AUTOCAST, "float16")
    with pytest.raises(UserError, match=f"{AUTOCAST}=float16: only bfloat16"):
        train_step(model, dictionary)


def test_matmul_precision(monkeypatch):
    before = torch.get_float32_matmul_precision()
    try:
        monkeypatch.setenv(MATMUL, "medium")
        set_matmul_precision()
        assert torch.get_float32_matmul_precision() == "medium"
        monkeypatch.delenv(MATMUL)
        set_matmul_precision()
        assert torch.get_float32_matmul_precision() == "medium"
        monkeypatch.setenv(MATMUL, "half")
        with pytest.raises(UserError, match=f"{MATMUL}=half: choose one of highest"):
            set_matmul_precision()
    finally:
        torch.set_float32_matmul_precision(before)
