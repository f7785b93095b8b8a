"""Joint SentencePiece BPE for both languages."""

import re
from pathlib import Path
from typing import Iterable

import sentencepiece

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.corpus import one_line


def train_subwords(
    lines: Iterable[str], prefix: Path, vocab_size: int, character_coverage: float = 1.0
) -> Path:
    """Train one BPE model for all *lines*.

    Args:
        lines: sentences of both languages.
        prefix: the model is written to ``prefix.model``, its vocabulary to ``prefix.vocab``.
        vocab_size: number of pieces.
        character_coverage: share of the characters in *lines* that are in the vocabulary; the
            rarest, which make up the rest, are unknown words.

    Raises:
        UserError: if the text has too little variety for *vocab_size*, or too much.
    """
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(one_line(line) for line in lines),
            model_prefix=str(prefix),
            vocab_size=vocab_size,
            model_type="bpe",
            character_coverage=character_coverage,
            # the pieces are words to fairseq, which has these symbols itself
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        limit = re.search(r"value <= (\d+)", str(error))
        if limit:
            raise UserError(
                f"--vocab-size {vocab_size} is more than this corpus allows: at most {limit[1]}"
            ) from None
        if "smaller than required_chars" in str(error) or "too small" in str(error):
            raise UserError(
                f"--vocab-size {vocab_size} is less than the corpus has characters: raise it"
            ) from None
        raise
    return Path(f"{prefix}.model")


class Subwords:
    """A trained SentencePiece model."""

    def __init__(self, model: Path):
        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(model))

    def encode(self, line: str) -> str:
        """Pieces separated by spaces, as fairseq reads them."""
        return " ".join(self.processor.encode(one_line(line), out_type=str))
