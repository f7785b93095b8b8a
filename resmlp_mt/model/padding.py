"""Padding: it is moved to the right, and never leaks into the words.

fairseq pads sources on the left by default, but row t of A is about the t-th word. So the padding
moves to the right on the way in and back on the way out: a sentence has the same states anywhere.
"""

import torch
from torch import Tensor

from resmlp_mt.errors import UserError


def zero_padding(x: Tensor, padding_mask: Tensor | None) -> Tensor:
    """*x*, T x B x C, with zeros where the mask, B x T, is True."""
    return x if padding_mask is None else x.masked_fill(padding_mask.t().unsqueeze(-1), 0)


def is_known_empty(mask: Tensor) -> bool:
    """Whether no position is marked, if that is free to know: on a CPU, outside of a compiled
    graph, which must be right for any sentences."""
    return mask.device.type == "cpu" and not torch.compiler.is_compiling() and not bool(mask.any())


def hide_padding(padding_mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """B x S, True at padding, to what attention adds to its scores, B x 1 x 1 x S, or None."""
    if padding_mask is None or is_known_empty(padding_mask):
        return None
    batch, length = padding_mask.shape
    width = -(-length // 8) * 8  # a GPU's attention kernels need multiples of 8
    mask = torch.zeros(batch, width, dtype=dtype, device=padding_mask.device)[:, :length]
    return mask.masked_fill_(padding_mask.bool(), float("-inf"))[:, None, None]


def check_length(tokens: Tensor, padding_idx: int, positions: int, side: str) -> None:
    """Refuse a batch, B x T, that is longer than the mixing matrix."""
    width = tokens.size(1)
    if width <= positions:
        return
    if (tokens.ne(padding_idx).sum(dim=1) <= positions).all():
        said = (
            f"{side} sentences are padded to {width} tokens, but this model has {positions} "
            "positions: lower --required-seq-len-multiple"
        )
    else:
        said = (
            f"a {side} sentence of {width} tokens (end of sentence included) is longer than the "
            f"{positions} positions that this model has: shorten or leave out the sentence"
        )
    raise UserError(f"{said}, or train with --max-{side}-positions {width} or more")


def turn_right(tokens: Tensor, padding_idx: int) -> tuple[Tensor, Tensor | None]:
    """Move the left padding of B x T tokens to the right. Also returns the B x T positions that
    undo this, or None if it is known that nothing moved."""
    padding = tokens.eq(padding_idx)
    if tokens.size(1) == 0 or is_known_empty(padding[:, 0]):
        return tokens, None
    # only the padding before the first word: each row may be padded on a side of its own
    leading = (~padding).int().argmax(dim=1, keepdim=True)
    positions = torch.arange(tokens.size(1), device=tokens.device)
    turned = tokens.gather(1, torch.remainder(positions + leading, tokens.size(1)))
    return turned, torch.remainder(positions - leading, tokens.size(1))


def turn_back(x: Tensor, order: Tensor, batch_first: bool) -> Tensor:
    """Undo :func:`turn_right`, which gave *order*, for states, T x B x C or *batch_first*."""
    if batch_first:
        return x.gather(1, order.unsqueeze(-1).expand_as(x))
    return x.gather(0, order.t().unsqueeze(-1).expand_as(x))
