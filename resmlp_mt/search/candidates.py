"""The best next tokens of every hypothesis, in as few passes over the vocabulary as possible.

With 256 hypotheses and 32,000 types the scores of one step are 33 MB. Normalizing, copying and
sorting them takes a third of the step. Here they are read twice: for the normalizer, and for the
maxima of short blocks of tokens.
"""

import torch
from torch import Tensor

from resmlp_mt.cpu import is_eager_on_cpu

BLOCK = 64  # tokens whose maximum is taken together
CHUNK = 1 << 20  # scores normalized at a time on a CPU, so that they stay in its cache


def log_normalizer(logits: Tensor) -> Tensor:
    """``log sum_v exp(logits[r, v])``: R x V to R x 1."""
    rows, vocabulary = logits.shape
    if not is_eager_on_cpu(logits):
        return torch.logsumexp(logits, dim=1, keepdim=True)
    out, size = logits.new_empty(rows, 1), max(1, CHUNK // vocabulary)
    for part, target in zip(logits.split(size), out.split(size), strict=True):
        torch.logsumexp(part, dim=1, keepdim=True, out=target)
    return out


def top_tokens(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k highest scores of each row, R x V, and their tokens: R x k both, highest first.

    Exact: the k highest scores are in the k blocks with the highest maxima.
    """
    blocks = logits.size(1) // BLOCK
    if blocks < 2 * k:
        return logits.topk(k, dim=1)
    end = blocks * BLOCK
    by_block = logits[:, :end].unflatten(1, (blocks, BLOCK))
    best_blocks = by_block.amax(dim=2).topk(k, dim=1).indices
    chosen = by_block.gather(1, best_blocks.unsqueeze(2).expand(-1, -1, BLOCK)).flatten(1)
    scores, places = torch.cat([chosen, logits[:, end:]], dim=1).topk(k, dim=1)
    block = best_blocks.gather(1, (places // BLOCK).clamp(max=k - 1))
    in_block, after_end = block * BLOCK + places % BLOCK, end + places - k * BLOCK
    return scores, torch.where(places < k * BLOCK, in_block, after_end)


def best_continuations(
    logits: Tensor, scores: Tensor, sentences: int, count: int
) -> tuple[Tensor, Tensor]:
    """The best *count* continuations of each of B *sentences*: scores, highest first, and
    candidates, ``row * V + token``, B x *count* both.

    *logits*, R x V grouped by sentence, are changed; *scores*, R x 1, are added to those of each
    row.
    """
    rows, vocabulary = logits.shape
    first_row = torch.arange(0, rows, rows // sentences, device=logits.device).unsqueeze(1)
    if not is_eager_on_cpu(logits):
        best, places = logits.add_(scores).view(sentences, -1).topk(count, dim=1)
        return best, first_row * vocabulary + places
    top, tokens = top_tokens(logits, count)
    best, places = (top + scores).view(sentences, -1).topk(count, dim=1)
    row, token = first_row + places // count, tokens.view(sentences, -1).gather(1, places)
    return best, row * vocabulary + token
