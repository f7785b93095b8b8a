"""Joint SentencePiece BPE for both languages."""

import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import sentencepiece

from resmlp_mt.errors import OptionError, UserError
from resmlp_mt.text.lines import one_line

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # begins a word

BYTES = re.compile(r"(?<!\S)<0x[0-9A-F]{2}>( <0x[0-9A-F]{2}>)*(?!\S)")

# fairseq's own symbols, which no piece of text may be taken for
SPECIAL = frozenset(("<s>", "<pad>", "</s>", "<unk>"))


def train_subwords(
    lines: Iterable[str], prefix: Path, vocab_size: int, character_coverage: float = 1.0
) -> Path:
    """Train ``prefix.model`` for the *lines* of both languages.

    SentencePiece leaves out lines of more than 4192 bytes. The rarest characters, beyond the share
    *character_coverage*, and all others are spelled in bytes; with 1 all that are not in the text
    are unknown words.
    """
    unread, model, path = [], io.BytesIO(), Path(f"{prefix}.model")

    def readable() -> Iterator[str]:
        try:
            yield from filter(None, map(one_line, lines))
        except Exception as error:
            unread.append(error)
            raise

    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=readable(),
            model_writer=model,  # a file of SentencePiece's own may be half of one
            vocab_size=vocab_size,
            model_type="bpe",
            character_coverage=character_coverage,
            byte_fallback=character_coverage < 1,
            # fairseq has these symbols itself
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        if unread:  # SentencePiece has wrapped it in its own
            raise unread[0] from None
        raise (_explained(str(error), vocab_size) or error) from None
    path.write_bytes(model.getvalue())
    return path


def _explained(said: str, vocab_size: int) -> UserError | None:
    """What SentencePiece said in one line, if it is known."""
    if "sentences_.empty()" in said:
        return UserError("no line of 1 to 4192 bytes to learn subwords from: give text")
    size = f"--vocab-size {vocab_size} is"
    if limit := re.search(r"value <= (\d+)", said):
        error = OptionError(f"{size} more than this corpus allows: at most {limit[1]}")
        error.most = int(limit[1])
        return error
    if "smaller than required_chars" in said or "too small" in said:
        least = re.search(r" vs (\d+)", said)  # characters, special symbols, 256 bytes
        raised = f"raise it to {least[1]} or more" if least else "raise it"
        return OptionError(f"{size} less than the corpus has characters: {raised}")
    return None


class Subwords:
    """A trained SentencePiece model."""

    def __init__(self, model: Path):
        try:
            self.processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        except (OSError, RuntimeError):
            message = f"{model} is not a SentencePiece model: give the one of the data"
            raise UserError(message) from None

    @property
    def bytes(self) -> list[str]:
        """The pieces that spell a byte, such as ``<0x0A>``."""
        numbers = range(self.processor.get_piece_size())
        return [self.processor.id_to_piece(n) for n in numbers if self.processor.is_byte(n)]

    def encode(self, line: str) -> str:
        """Pieces separated by spaces, as fairseq reads them."""
        pieces = self.processor.encode(one_line_of_text(line), out_type=str)
        return " ".join(plain_pieces(pieces, self.processor))


def without_bytes(pieces: str) -> str:
    """*pieces*, separated by spaces, with a piece of text for each run of those that spell a byte.
    What is no UTF-8 becomes U+FFFD."""
    return BYTES.sub(
        lambda run: one_line(bytes.fromhex(re.sub("<0x|>", "", run[0])).decode(errors="replace")),
        pieces,
    )


def one_line_of_text(line: str) -> str:
    """*line* as SentencePiece can take it."""
    line = one_line(line)
    try:
        line.encode("utf-8")
    except UnicodeEncodeError:  # Python reads bytes of a command line that are not UTF-8 as such
        raise UserError(f"{line[:60]!a}: invalid UTF-8: give text in UTF-8") from None
    return line


def plain_pieces(
    pieces: Iterable[str], processor: sentencepiece.SentencePieceProcessor
) -> list[str]:
    """Pieces that fairseq takes for nothing but text: a ``</s>`` that SentencePiece does not know
    comes out whole, and would end the sentence, so it is cut into characters."""
    plain = []
    for piece in pieces:
        unknown = piece in SPECIAL and processor.piece_to_id(piece) == processor.unk_id()
        plain.extend(piece if unknown else [piece])
    return plain
