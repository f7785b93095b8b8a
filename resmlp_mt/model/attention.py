"""Scaled dot-product attention, with weights only where they are asked for."""

from typing import Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def split_heads(x: Tensor, heads: int) -> Tensor:
    """T x B x C to B x H x T x C / H."""
    length, batch, _ = x.shape
    return x.reshape(length, batch, heads, -1).permute(1, 2, 0, 3)


def join_heads(x: Tensor) -> Tensor:
    """B x H x T x C / H to T x B x C."""
    return x.permute(2, 0, 1, 3).flatten(2)


def attend(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Optional[Tensor] = None,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> Tuple[Tensor, Optional[Tensor]]:
    """``softmax(Q K' / sqrt(C / H)) V``, B x H x T x C / H, and None or the weights before dropout,
    B x H x T x S, in float32 at least. *mask*, B x 1 x 1 x S, is added to the scores."""
    if not need_weights:
        return F.scaled_dot_product_attention(queries, keys, values, mask, dropout), None
    scores = (queries * queries.size(-1) ** -0.5) @ keys.transpose(2, 3)
    if mask is not None:
        scores = scores + mask
    weights = torch.softmax(scores, -1, dtype=torch.promote_types(scores.dtype, torch.float32))
    return F.dropout(weights.to(values.dtype), dropout) @ values, weights


def keys_values(attention: nn.Module, states: Tensor) -> Tuple[Tensor, Tensor]:
    """The keys and values of fairseq's MultiheadAttention for *states*, S x B x C:
    B x H x S x C / H each."""
    keys, values = attention.k_proj(states), attention.v_proj(states)
    return split_heads(keys, attention.num_heads), split_heads(values, attention.num_heads)
