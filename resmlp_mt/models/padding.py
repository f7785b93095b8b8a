"""Right padding for a model whose matrices are about absolute positions.

fairseq pads sources on the left by default. A row of A belongs to a position counted from the
first word, so the padding is turned over on the way in and back on the way out: a sentence then
gets the same states in any batch and for either side.
"""

from typing import Optional, Tuple

import torch
from torch import Tensor

from resmlp_mt.errors import UserError
from resmlp_mt.modules.padding import is_known_empty


def check_length(tokens: Tensor, padding_idx: int, positions: int, side: str) -> None:
    """Refuse a batch that reaches past the last row of the mixing matrix.

    Args:
        tokens: B x T token indices, each row padded on either side.
        padding_idx: the index of the padding symbol.
        positions: number of rows of A.
        side: ``"source"`` or ``"target"``.

    Raises:
        UserError: if T is more than *positions*.
    """
    width = tokens.size(1)
    if width <= positions:
        return
    if (tokens.ne(padding_idx).sum(dim=1) <= positions).all():
        raise UserError(
            f"{side} sentences are padded to {width} tokens, but this model has {positions} "
            f"positions: lower --required-seq-len-multiple, or train with --max-{side}-positions "
            f"{width} or more"
        )
    raise UserError(
        f"a {side} sentence of {width} tokens (end of sentence included) is longer than the "
        f"{positions} positions that this model has: train with "
        f"--max-{side}-positions {width} or more, or shorten or leave out the sentence"
    )


def turn_right(tokens: Tensor, padding_idx: int) -> Tuple[Tensor, Optional[Tensor]]:
    """Move left padding to the right.

    Args:
        tokens: B x T token indices, each row padded on either side.
        padding_idx: the index of the padding symbol.

    Returns:
        the tokens padded on the right, B x T, and the B x T positions that :func:`turn_back` needs
        to undo it, or None where it is known that nothing was moved.
    """
    padding = tokens.eq(padding_idx)
    if tokens.size(1) == 0 or is_known_empty(padding[:, 0]):
        return tokens, None
    # only the padding before the first word counts: each row may be padded on a side of its own
    leading = (~padding).int().argmax(dim=1, keepdim=True)
    positions = torch.arange(tokens.size(1), device=tokens.device)
    turned = tokens.gather(1, torch.remainder(positions + leading, tokens.size(1)))
    return turned, torch.remainder(positions - leading, tokens.size(1))


def turn_back(x: Tensor, order: Tensor, batch_first: bool) -> Tensor:
    """Put states back at the positions of the tokens that were given.

    Args:
        x: states, T x B x C, or B x T x C if *batch_first*.
        order: the second result of :func:`turn_right`.
        batch_first: the layout of *x*.
    """
    if batch_first:
        return x.gather(1, order.unsqueeze(-1).expand_as(x))
    return x.gather(0, order.t().unsqueeze(-1).expand_as(x))
