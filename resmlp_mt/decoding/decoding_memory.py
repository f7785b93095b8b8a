"""The memory of word-by-word decoding, in the dictionary that fairseq hands from step to step."""

from typing import Optional

from torch import Tensor

from resmlp_mt.decoding.beam_history import BeamHistory
from resmlp_mt.decoding.source_memory import SourceMemory

# fairseq hands every module the same dictionary; each model of an ensemble has one of its own
_KEY = "resmlp_mt.decoding.decoding_memory"


class DecodingMemory:
    """Past target words, for the mixing sublayers, and the source, for the cross-attention.

    Attributes:
        history: see :class:`BeamHistory`.
        source: see :class:`SourceMemory`; None before the first word, or without a source.
        need_attention: whether attention weights are asked for beside the features.
    """

    def __init__(self) -> None:
        self.history = BeamHistory()
        self.source: Optional[SourceMemory] = None
        self.need_attention = True

    @staticmethod
    def of(incremental_state: dict) -> "DecodingMemory":
        """The memory in *incremental_state*, made empty if there is none yet."""
        if _KEY not in incremental_state:
            incremental_state[_KEY] = DecodingMemory()
        return incremental_state[_KEY]

    def begin(self, words: Tensor, length: int, limit: int, encoder_out: Optional[dict]) -> None:
        """What the host does before the decoder is given the next word of R hypotheses.

        Args:
            words: R; the newest words.
            length: number of words so far, these included.
            limit: the most words that there can be.
            encoder_out: what the encoder returned, for R hypotheses; read at the first word only.

        Raises:
            ValueError: if another number of words is remembered than there were before these.
        """
        if len(self.history) != length - 1:
            raise ValueError(
                f"incremental_state holds {len(self.history)} words, but prev_output_tokens "
                f"has {length - 1} before the newest: feed one word at a time"
            )
        if self.source is None and encoder_out is not None and encoder_out["encoder_out"]:
            sentences = encoder_out.get("sentences", encoder_out)
            mask = sentences["encoder_padding_mask"]
            self.source = SourceMemory(
                sentences["encoder_out"][0],
                mask[0] if mask else None,
                encoder_out.get("sentence_of_row"),
            )
            self.history.beam = self.source.beam
        self.history.make_room(len(words), limit, words.device)

    def reorder(self, new_order: Tensor) -> None:
        """Let hypothesis r go on from hypothesis ``new_order[r]``; also drops and repeats rows."""
        self.history.reorder(new_order)
        if self.source is not None:
            self.source.reorder(new_order)
            self.history.beam = self.source.beam

    def go_on(self, rows: Tensor, kept: Optional[Tensor], beam: int) -> None:
        """:meth:`reorder` by *rows* where it is known that beams stay within their sentence.

        Args:
            rows: the row that each hypothesis continues.
            kept: the sentences that are left, of those there were; None: all.
            beam: hypotheses of each sentence from now on.
        """
        self.history.reorder(rows)
        self.history.beam = beam
        if self.source is None:
            return
        if self.source.beam != beam:
            self.source.spread(beam)
        if kept is not None:
            self.source.keep(kept)
