"""The loss of fairseq-train: label smoothing that reads its scores twice, and bfloat16."""

import os
from contextlib import nullcontext

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models.transformer import TransformerDecoderBase, TransformerModelBase
from fairseq.tasks.fairseq_task import FairseqTask
from torch.nn.attention import SDPBackend, sdpa_kernel

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes import replace

CACHED = 1 << 18  # scores, about what a core's cache holds


@replace(LabelSmoothedCrossEntropyCriterion, "compute_loss")
def compute_loss(original, self, model, net_output, sample, reduce=True):
    """fairseq's loss goes some fifteen times over the scores of all words, a quarter of the time of
    a small model on a CPU. It can go when the original is as fast."""
    plain = reduce and not self.ignore_prefix_size and not self.report_accuracy
    if not plain or not _gives_logits(model) or net_output[0].is_cuda:
        return original(self, model, net_output, sample, reduce)
    scores, target = net_output[0].flatten(0, -2), sample["target"].flatten()
    return SmoothedLoss.apply(scores, target, self.eps, self.padding_idx)


def _gives_logits(model) -> bool:
    """Whether the probabilities are the softmax of what the model gives. A subclass may say
    otherwise, as fairseq's pointer generator does."""
    if not isinstance(model, TransformerModelBase) or model.decoder.adaptive_softmax is not None:
        return False
    parts = ((model, TransformerModelBase), (model.decoder, TransformerDecoderBase))
    return all(type(own).get_normalized_probs is of.get_normalized_probs for own, of in parts)


class SmoothedLoss(torch.autograd.Function):
    """The loss with label smoothing, and that without, summed over N *targets*. *scores* are N x V
    and read in pieces that stay in the cache, once forwards and once backwards."""

    @staticmethod
    def forward(ctx, scores, targets, smoothing, padding):
        types = scores.size(1)
        norms, loss, plain = [], scores.new_zeros((), dtype=torch.float32), 0.0
        share = smoothing / (types - 1)  # of each word but the right one
        for some, right in _pieces(scores, targets):
            some, kept = some.float(), right != padding
            norm = some.logsumexp(1)
            found = norm - some.gather(1, right[:, None])[:, 0]
            others = norm * types - some.sum(1)
            plain = plain + found[kept].sum()
            loss = loss + ((1 - smoothing - share) * found + share * others)[kept].sum()
            norms.append(norm)
        ctx.save_for_backward(scores, targets, torch.cat(norms))
        ctx.smoothing, ctx.padding, ctx.share = smoothing, padding, share
        ctx.mark_non_differentiable(plain)
        return loss, plain

    @staticmethod
    def backward(ctx, gradient, _):
        scores, targets, norms = ctx.saved_tensors
        result, rows = torch.empty_like(scores), 0
        for some, right in _pieces(scores, targets):
            place = slice(rows, rows := rows + len(some))
            # softmax less the smoothed target
            piece = (some.float() - norms[place, None]).exp_().sub_(ctx.share)
            at_right = piece.new_full((len(right), 1), ctx.share + ctx.smoothing - 1)
            piece.scatter_add_(1, right[:, None], at_right)
            torch.mul(piece, ((right != ctx.padding) * gradient)[:, None], out=result[place])
        return result, None, None, None


def _pieces(scores, targets):
    rows = max(1, CACHED // scores.size(1))
    return zip(scores.split(rows), targets.split(rows))


# ---- precision ------------------------------------------------------------------------------

AUTOCAST = "RESMLP_MT_AUTOCAST"


@replace(FairseqTask, "train_step")
def autocast_step(original, self, sample, model, criterion, *args, **kwargs):
    """``RESMLP_MT_AUTOCAST=bfloat16`` computes the loss under ``torch.autocast``; weights,
    gradients, optimizer, softmax and validation stay float32. It can go when fairseq-train has an
    option for it: --amp is float16, on GPUs only."""
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
