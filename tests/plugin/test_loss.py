"""The loss that reads the scores of the vocabulary twice: the same as fairseq's."""

import math
from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    label_smoothed_nll_loss,
)
from fairseq.models.transformer import TransformerModel, base_architecture
from helpers import SMALL, build_model, gap, synthetic_dictionary
from torch.nn import functional as F

from resmlp_mt.loss import CACHED, SmoothedLoss
from resmlp_mt.plugin import register


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("types", [7, 1000, CACHED + 1])
def test_smoothed_loss_is_that_of_fairseq(types, smoothing):
    """In several chunks, with padding and with a gradient that is not 1; nothing is changed."""
    scores = (5 * torch.randn(2 * CACHED // types + 3, types)).requires_grad_()
    targets = torch.randint(types, (len(scores),))
    targets[::2] = 1
    before = scores.detach().clone()

    def results(loss, plain):
        (gradient,) = torch.autograd.grad(loss * 0.3, scores)
        return loss, plain, gradient

    logs = F.log_softmax(scores, -1, torch.float64)
    theirs = results(*label_smoothed_nll_loss(logs, targets, smoothing, ignore_index=1))
    ours = results(*SmoothedLoss.apply(scores, targets, smoothing, 1))
    for mine, other in zip(ours, theirs):
        assert gap(mine, other.view(mine.shape).float()) < 1e-4
    assert torch.equal(scores, before)
    half = scores.detach().bfloat16().requires_grad_()
    loss, _ = SmoothedLoss.apply(half, targets, smoothing, 1)
    loss.backward()
    assert half.grad.dtype == torch.bfloat16 and abs(loss / theirs[0] - 1) < 0.01


def loss_of(model, net_output, target):
    register()
    criterion = LabelSmoothedCrossEntropyCriterion(SimpleNamespace(target_dictionary=None), True, 0)
    criterion.padding_idx = 1
    return criterion.compute_loss(model, net_output, {"target": target})[0]


def test_an_adaptive_softmax():
    """What the decoder gives are no scores of tokens then."""
    args = Namespace(arch="transformer", adaptive_softmax_cutoff="10,20", **SMALL)
    base_architecture(args)
    types = synthetic_dictionary(50)
    task = SimpleNamespace(source_dictionary=types, target_dictionary=types)
    model, tokens = TransformerModel.build_model(args, task).eval(), torch.tensor([[7, 8, 2]])
    output = model(tokens, torch.tensor([3]), tokens)
    logs = model.get_normalized_probs(output, True, {"target": tokens})
    assert gap(loss_of(model, output, tokens), -logs.gather(2, tokens[..., None]).sum()) < 1e-5


def test_a_model_with_probabilities_of_its_own():
    """It keeps fairseq's loss, like the decoder of fairseq's pointer generator."""
    model, _ = build_model()
    scores, target = torch.randn(1, 2, 50), torch.tensor([[7, 8]])
    expected = F.cross_entropy(scores[0], target[0], reduction="sum")
    assert gap(loss_of(model, (scores, None), target), expected) < 1e-5

    class Uniform(type(model.decoder)):
        def get_normalized_probs(self, net_output, log_probs, sample=None):
            return torch.full_like(net_output[0], 1 / 50).log()

    model.decoder.__class__ = Uniform
    assert gap(loss_of(model, (scores, None), target), torch.tensor(2 * math.log(50))) < 1e-5
