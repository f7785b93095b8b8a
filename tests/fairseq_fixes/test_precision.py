"""What ``--precision`` asks fairseq-train for, by variables."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.tasks.fairseq_task import FairseqTask
from helpers import build_model, pad_batch, random_sentences, shift

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes.trainings import AUTOCAST, MATMUL, set_matmul_precision


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


def test_matmul_precision(monkeypatch):
    before = torch.get_float32_matmul_precision()
    for given, found in (("medium", "medium"), ("", "medium"), ("high", "high"), (before, before)):
        monkeypatch.setenv(MATMUL, given)
        set_matmul_precision()
        assert torch.get_float32_matmul_precision() == found
    monkeypatch.setenv(MATMUL, "half")
    with pytest.raises(UserError, match=f"{MATMUL}=half: choose one of highest"):
        set_matmul_precision()
