"""The best next words of every hypothesis, in as few passes over the vocabulary as possible.

With 256 hypotheses and 32,000 types the scores of one step are 33 MB. To normalize, copy and sort
them one after the other takes a third of the step. Here they are read twice: for the normalizer,
and for the maxima of short blocks of words.
"""

import torch
from torch import Tensor

BLOCK = 64  # words whose maximum is taken together
CHUNK = 1 << 20  # scores normalized at a time on a CPU, so that the temporary ones stay in cache


def in_chunks(x: Tensor) -> bool:
    """Whether a pass over *x* is best made a part at a time, for the caches of a CPU."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def log_normalizer(logits: Tensor) -> Tensor:
    """``log sum_v exp(logits[r, v])``: R x V to R x 1."""
    rows, words = logits.shape
    if not in_chunks(logits):
        return torch.logsumexp(logits, dim=1, keepdim=True)
    out = logits.new_empty(rows, 1)
    for chunk, some in zip(
        logits.split(max(1, CHUNK // words)), out.split(max(1, CHUNK // words)), strict=True
    ):
        torch.logsumexp(chunk, dim=1, keepdim=True, out=some)
    return out


def top_words(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k highest scores of each row and their words, highest first: R x V to R x k twice.

    Exact: the k highest scores are in the k blocks with the highest maxima.
    """
    rows, words = logits.shape
    blocks = words // BLOCK
    if blocks < 2 * k:
        return logits.topk(k, dim=1)
    main = logits[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK))
    best = main.amax(dim=2).topk(k, dim=1).indices
    chosen = main.gather(1, best.unsqueeze(2).expand(-1, -1, BLOCK)).flatten(1)
    rest = logits[:, blocks * BLOCK :]
    scores, places = torch.cat([chosen, rest], dim=1).topk(k, dim=1)
    block = best.gather(1, (places // BLOCK).clamp(max=k - 1))
    in_rest = places + (blocks - k) * BLOCK
    return scores, torch.where(places < k * BLOCK, block * BLOCK + places % BLOCK, in_rest)


def best_continuations(
    logits: Tensor, scores: Tensor, first_candidates: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """The best ways for the hypotheses of B sentences to go on: their scores, the highest first,
    and candidates, ``row * V + word``, B x *count* both.

    *logits*, R x V grouped by sentence, are changed; *scores*, R x 1, are added to those of each
    row; *first_candidates*, B x 1, are each sentence's first row with word 0.
    """
    sentences = len(first_candidates)
    if not in_chunks(logits):
        found = logits.add_(scores).view(sentences, -1)
        best, places = found.topk(count, dim=1)
        return best, places + first_candidates
    found, words = top_words(logits, count)
    found = (found + scores).view(sentences, -1)
    best, places = found.topk(count, dim=1)
    words = words.view(sentences, -1).gather(1, places)
    return best, places // count * logits.size(1) + first_candidates + words
