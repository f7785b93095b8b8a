"""What we add to the loss of fairseq-train: label smoothing that is fast on a CPU, bfloat16."""

import os
from contextlib import nullcontext

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models.transformer import TransformerDecoderBase, TransformerModelBase
from fairseq.tasks.fairseq_task import FairseqTask
from torch.nn.attention import SDPBackend, sdpa_kernel

from resmlp_mt.patching import replace
from resmlp_mt_runtime.errors import UserError

CACHED = 1 << 18  # scores, about what a core's cache holds


@replace(LabelSmoothedCrossEntropyCriterion, "compute_loss")
def compute_loss(original, self, model, net_output, sample, reduce=True):
    """The loss with label smoothing reads the scores twice on a CPU.

    fairseq's reads them some fifteen times, a quarter of the time of a small model's update. It can
    go when the original is as fast (``test_smoothed_loss_is_that_of_fairseq``)."""
    plain = reduce and not self.ignore_prefix_size
    if not plain or not _gives_logits(model) or net_output[0].is_cuda:
        return original(self, model, net_output, sample, reduce)
    scores, target = net_output[0].flatten(0, -2), sample["target"].flatten()
    return SmoothedLoss.apply(scores, target, self.eps, self.padding_idx)


def _gives_logits(model) -> bool:
    """Whether the probabilities are the softmax of the model's output, unlike those of fairseq's
    pointer generator, for example."""
    if not isinstance(model, TransformerModelBase) or model.decoder.adaptive_softmax is not None:
        return False
    parts = ((model, TransformerModelBase), (model.decoder, TransformerDecoderBase))
    return all(type(own).get_normalized_probs is of.get_normalized_probs for own, of in parts)


class SmoothedLoss(torch.autograd.Function):
    """The loss with label smoothing, and that without, summed over N *targets*.

    *scores*, N x V, are read in chunks that stay in the cache, once forwards and once backwards.
    With u = *smoothing* / (V - 1) and p the softmax of scores x, the loss of target t is
    ``-(1 - smoothing - u) log p[t] - u sum(log p)`` and its gradient ``p - u - (1 - smoothing - u)
    [t]``. The largest score is subtracted first: log p of large scores would be rounded coarsely.
    """

    @staticmethod
    def forward(ctx, scores, targets, smoothing, padding):
        vocabulary = scores.size(1)
        largest, norms = [], []
        loss, plain = scores.new_zeros((), dtype=torch.float32), 0.0
        uniform = smoothing / (vocabulary - 1)  # probability that smoothing gives each wrong type
        for chunk, right in _chunks(scores, targets):
            chunk, counted = chunk.float(), right != padding
            largest.append(chunk.amax(1, keepdim=True))
            chunk = chunk - largest[-1]
            norms.append(chunk.exp().sum(1, keepdim=True).log_())
            norm = norms[-1][:, 0]
            nll = norm - chunk.gather(1, right[:, None])[:, 0]
            of_all = norm * vocabulary - chunk.sum(1)
            plain = plain + nll[counted].sum()
            smoothed = (1 - smoothing - uniform) * nll + uniform * of_all
            loss = loss + smoothed[counted].sum()
        ctx.save_for_backward(scores, targets, torch.cat(largest), torch.cat(norms))
        ctx.smoothing, ctx.padding, ctx.uniform = smoothing, padding, uniform
        ctx.mark_non_differentiable(plain)
        return loss, plain

    @staticmethod
    def backward(ctx, gradient, _):
        scores, targets, largest, norms = ctx.saved_tensors
        result, start = torch.empty_like(scores), 0
        for chunk, right in _chunks(scores, targets):
            rows = slice(start, start := start + len(chunk))
            # softmax less the smoothed target
            chunk = (chunk.float() - largest[rows]).sub_(norms[rows]).exp_().sub_(ctx.uniform)
            at_right = chunk.new_full((len(right), 1), ctx.uniform + ctx.smoothing - 1)
            chunk.scatter_add_(1, right[:, None], at_right)
            torch.mul(chunk, ((right != ctx.padding) * gradient)[:, None], out=result[rows])
        return result, None, None, None


def _chunks(scores, targets):
    rows = max(1, CACHED // scores.size(1))
    return zip(scores.split(rows), targets.split(rows))


# ---- precision ------------------------------------------------------------------------------

AUTOCAST = "RESMLP_MT_AUTOCAST"


@replace(FairseqTask, "train_step")
def autocast_step(original, self, sample, model, criterion, *args, **kwargs):
    """``RESMLP_MT_AUTOCAST=bfloat16`` computes the loss under ``torch.autocast``.

    Weights, gradients, optimizer, softmax and validation stay float32. It can go when fairseq-train
    has an option for it: --amp is float16, on GPUs only
    (``test_products_are_bfloat16_and_gradients_float32``)."""
    precision = os.environ.get(AUTOCAST)
    if not precision:
        return original(self, sample, model, criterion, *args, **kwargs)
    if precision != "bfloat16":
        raise UserError(f"{AUTOCAST}={precision}: only bfloat16 is known: unset it or write that")
    device = next(model.parameters()).device.type

    def loss_of(model, sample):  # the backward pass takes the types of the forward pass
        # on a CPU PyTorch's fused attention takes two to eight times as long in bfloat16
        attention = sdpa_kernel(SDPBackend.MATH) if device == "cpu" else nullcontext()
        with torch.autocast(device, torch.bfloat16), attention:
            return criterion(model, sample)

    return original(self, sample, model, loss_of, *args, **kwargs)
