"""Joint SentencePiece BPE for both languages."""

import io
import re
from collections.abc import Iterable
from pathlib import Path

import sentencepiece

from resmlp_mt.errors import OptionError, UserError
from resmlp_mt_runtime.pieces import nfc


def train_subwords(
    lines: Iterable[str], prefix: Path, vocab_size: int, character_coverage: float = 1.0
) -> Path:
    """Train ``prefix.model`` for the *lines* of both languages, by the rule ``nfc``.

    SentencePiece skips lines of more than 4192 bytes. Characters beyond the share
    *character_coverage*, the rarest, are spelled in bytes like those that the text lacks; with a
    share of 1 no character of the text is rare, and others are unknown tokens.
    """
    model, path = io.BytesIO(), Path(f"{prefix}.model")
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=filter(None, map(nfc, lines)),
            model_writer=model,  # SentencePiece may leave half a file
            vocab_size=vocab_size,
            model_type="bpe",
            normalization_rule_name="identity",  # the default, NFKC, changes the text
            character_coverage=character_coverage,
            byte_fallback=character_coverage < 1,
            # fairseq has these symbols itself
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise (_explained(str(error), vocab_size) or error) from None
    path.write_bytes(model.getvalue())
    return path


def _explained(message: str, vocab_size: int) -> UserError | None:
    """A message of SentencePiece's in one line; None for one that is not known."""
    if "sentences_.empty()" in message:
        return UserError("no line of 1 to 4192 bytes to learn subwords from: give text")
    size = f"--vocab-size {vocab_size} is"
    if most := re.search(r"value <= (\d+)", message):
        error = OptionError(f"{size} more than this corpus allows: at most {most[1]}")
        error.most = int(most[1])
        return error
    if "smaller than required_chars" in message or "too small" in message:
        least = re.search(r" vs (\d+)", message)  # characters, special symbols, 256 bytes
        raised = f"raise it to {least[1]} or more" if least else "raise it"
        return OptionError(f"{size} less than the corpus has characters: {raised}")
    return None
