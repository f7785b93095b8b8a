"""What word-by-word decoding remembers for the mixing sublayers.

A mixing sublayer needs the input that it saw at each past position and nothing else. Those rows
are written once and never moved: when beam search reorders or drops hypotheses only a small table
of row numbers changes, and it is shared by all layers.
"""

from typing import Dict, Optional

import torch
from torch import Tensor

# fairseq hands every module the same dictionary; each model of an ensemble has one of its own
_KEY = "resmlp_mt.beam_history"


class BeamHistory:
    """Past inputs of every mixing sublayer, for R hypotheses at T positions.

    Attributes:
        index: R x T; row of the buffers that holds hypothesis r's input at position t.
    """

    def __init__(self) -> None:
        self.index: Optional[Tensor] = None
        self._buffers: Dict[int, Tensor] = {}
        self._rows = 0

    @staticmethod
    def of(incremental_state: dict) -> "BeamHistory":
        """The history in *incremental_state*, made empty if there is none yet."""
        if _KEY not in incremental_state:
            incremental_state[_KEY] = {"history": BeamHistory()}
        return incremental_state[_KEY]["history"]

    @staticmethod
    def reorder_in(incremental_state: dict, new_order: Tensor) -> None:
        """Let hypothesis r go on from hypothesis ``new_order[r]``; also drops and repeats rows."""
        history = BeamHistory.of(incremental_state)
        if history.index is not None:
            history.index = history.index.index_select(0, new_order)

    def __len__(self) -> int:
        return 0 if self.index is None else self.index.size(1)

    def advance(self, hypotheses: int, device: torch.device) -> None:
        """Begin the next position: give each of R hypotheses a new row."""
        rows = torch.arange(self._rows, self._rows + hypotheses, device=device).unsqueeze(1)
        self.index = rows if self.index is None else torch.cat([self.index, rows], dim=1)
        self._rows += hypotheses

    def write(self, layer: int, x: Tensor) -> Tensor:
        """Store the newest position's input of one layer.

        Args:
            layer: a number that is the layer's own.
            x: R x C.

        Returns:
            all rows of that layer so far, ``rows x C``: what :attr:`index` points into.
        """
        first = self._rows - x.size(0)
        buffer = self._buffers.get(layer)
        if buffer is None or buffer.size(0) < self._rows:
            # doubling keeps the number of copies logarithmic in the length
            grown = x.new_empty(max(2 * self._rows, 16), x.size(1))
            if buffer is not None:
                grown[:first] = buffer[:first]
            buffer = self._buffers[layer] = grown
        buffer[first : self._rows] = x
        return buffer[: self._rows]
