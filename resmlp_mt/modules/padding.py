"""What keeps padding out of the words: zeros before A, minus infinity before a softmax."""

from typing import Optional

import torch
from torch import Tensor


def zero_padding(x: Tensor, padding_mask: Optional[Tensor]) -> Tensor:
    """*x*, T x B x C, with zeros at padding, where there is any.

    Args:
        padding_mask: B x T, True at padding, or None if there is none.
    """
    return x if padding_mask is None else x.masked_fill(padding_mask.t().unsqueeze(-1), 0)


def is_known_empty(mask: Tensor) -> bool:
    """Whether no position is marked, where the host can say so at no cost: on a CPU, and not in a
    graph that is compiled or exported, which has to be right for any sentences."""
    return mask.device.type == "cpu" and not torch.compiler.is_compiling() and not bool(mask.any())


def hide_padding(padding_mask: Optional[Tensor], dtype: torch.dtype) -> Optional[Tensor]:
    """What :func:`~resmlp_mt.modules.attention.attend` adds to the scores: B x S, True at padding,
    to B x 1 x 1 x S, or None where it is known that there is no padding.

    Rows begin at multiples of 8 numbers, as the attention kernels of a GPU ask for. Others would
    be copied at each call.
    """
    if padding_mask is None or is_known_empty(padding_mask):
        return None
    batch, length = padding_mask.shape
    width = -(-length // 8) * 8
    mask = torch.zeros(batch, width, dtype=dtype, device=padding_mask.device)[:, :length]
    return mask.masked_fill_(padding_mask.bool(), float("-inf"))[:, None, None]
