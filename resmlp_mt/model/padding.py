"""Padding: moved to the right of the tokens, and hidden from them.

fairseq pads sources on the left by default, but row t of A is about the t-th token. So the padding
of an input moves to the right, and that of the output back: a sentence has the same states in any
batch.
"""

import torch
from torch import Tensor

from resmlp_mt.cpu import is_eager_on_cpu
from resmlp_mt_runtime.errors import UserError


def zero_padding(x: Tensor, padding_mask: Tensor | None) -> Tensor:
    """*x*, T x B x C, with zeros where the mask, B x T, is True."""
    return x if padding_mask is None else x.masked_fill(padding_mask.t().unsqueeze(-1), 0)


def known_empty(mask: Tensor) -> bool:
    """True if no position is padding. False also where that is not checked: on a GPU, which would
    have to be waited for, and while compiling."""
    return is_eager_on_cpu(mask) and not bool(mask.any())


def hide_padding(padding_mask: Tensor, dtype: torch.dtype) -> Tensor | None:
    """B x S, True at padding, to the mask that attention adds to its scores, B x 1 x 1 x S, -inf at
    padding; None if nothing is padded."""
    if known_empty(padding_mask):
        return None
    batch, length = padding_mask.shape
    width = -(-length // 8) * 8  # a GPU's attention kernels need multiples of 8
    mask = torch.zeros(batch, width, dtype=dtype, device=padding_mask.device)[:, :length]
    return mask.masked_fill_(padding_mask.bool(), float("-inf"))[:, None, None]


def check_length(tokens: Tensor, positions: int, side: str) -> None:
    """Raise a UserError if a batch, B x T, is longer than the mixing matrix."""
    length = tokens.size(1)
    if length > positions:
        wrong = f"a {side} sentence of {length} tokens (with padding) exceeds the {positions}"
        remedy = f"shorten it, or train with --max-{side}-positions {length}"
        raise UserError(f"{wrong} positions of the model: {remedy}")


def turn_right(tokens: Tensor, padding_idx: int) -> tuple[Tensor, Tensor | None]:
    """Move the left padding of B x T tokens to the right. Also returns the positions that undo
    this, B x T, or None if nothing moved."""
    padding = tokens.eq(padding_idx)
    if tokens.size(1) == 0 or known_empty(padding[:, 0]):
        return tokens, None
    # only the padding before the first token: each row may be padded on a side of its own
    leading = (~padding).int().argmax(dim=1, keepdim=True)
    positions = torch.arange(tokens.size(1), device=tokens.device)
    turned = tokens.gather(1, torch.remainder(positions + leading, tokens.size(1)))
    return turned, torch.remainder(positions - leading, tokens.size(1))


def turn_back(x: Tensor, order: Tensor) -> Tensor:
    """Undo :func:`turn_right`, which gave *order*, for states, T x B x C."""
    return x.gather(0, order.t().unsqueeze(-1).expand_as(x))
