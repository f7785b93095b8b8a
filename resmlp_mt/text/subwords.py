"""Joint SentencePiece BPE for both languages."""

import re
import sys
from pathlib import Path
from typing import Iterable, Iterator, List, Optional

import sentencepiece

from resmlp_mt.errors import OptionError, UserError
from resmlp_mt.text.lines import one_line

MAX_BYTES = 4192  # SentencePiece learns nothing from a longer line
# nor from one with the character that it marks unknown words with
RESERVED = "\N{LOWER FIVE EIGHTHS BLOCK}"
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # begins a word

# fairseq's own symbols, which no piece of text may be taken for
SPECIAL = frozenset(("<s>", "<pad>", "</s>", "<unk>"))


def train_subwords(
    lines: Iterable[str], prefix: Path, vocab_size: int, character_coverage: float = 1.0
) -> Path:
    """Train ``prefix.model`` for the *lines* of both languages.

    Standard error says how many lines SentencePiece does not learn from. The rarest characters,
    beyond the share *character_coverage*, are unknown words.
    """
    source = _Learnable(lines)
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(source),
            model_prefix=str(prefix),
            vocab_size=vocab_size,
            model_type="bpe",
            character_coverage=character_coverage,
            # fairseq has these symbols itself
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        if source.error is not None:  # SentencePiece has wrapped it in its own
            raise source.error from None
        _explain(str(error), source, prefix, vocab_size)
        raise
    if source.left_out:
        print(
            f"note: subwords are learnt without {source.left_out} lines, longer than {MAX_BYTES:,} "
            f"bytes or with {RESERVED} in them",
            file=sys.stderr,
        )
    return Path(f"{prefix}.model")


def _explain(said: str, source: "_Learnable", prefix: Path, vocab_size: int) -> None:
    """Raise a readable error for what SentencePiece said, if it is known."""
    if not source.taken:
        raise UserError(
            f"no line to learn subwords from ({source.left_out} that are too long): give text"
        ) from None
    unwritable = re.search(rf'"{re.escape(str(prefix))}\.\w+": (.*)', said)
    if unwritable:
        raise UserError(f"{prefix}.model could not be written: {unwritable[1]}") from None
    limit = re.search(r"value <= (\d+)", said)
    if limit:
        error = OptionError(
            f"--vocab-size {vocab_size} is more than this corpus allows: at most {limit[1]}"
        )
        error.most = int(limit[1])
        raise error from None
    if "smaller than required_chars" in said or "too small" in said:
        raise OptionError(
            f"--vocab-size {vocab_size} is less than the corpus has characters: raise it"
        ) from None


class _Learnable:
    """The lines that SentencePiece learns from, counted, and what reading them raised."""

    def __init__(self, lines: Iterable[str]):
        self.lines, self.taken, self.left_out = lines, 0, 0
        self.error: Optional[Exception] = None

    def __iter__(self) -> Iterator[str]:
        try:
            for line in self.lines:
                line = one_line(line)
                if len(line.encode()) > MAX_BYTES or RESERVED in line:
                    self.left_out += 1
                elif line:
                    self.taken += 1
                    yield line
        except Exception as error:
            self.error = error
            raise


class Subwords:
    """A trained SentencePiece model."""

    def __init__(self, model: Path):
        try:
            self.processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        except (OSError, RuntimeError):
            message = f"{model} is not a SentencePiece model: give the one of the data"
            raise UserError(message) from None
        if any(map(self.processor.is_byte, range(self.processor.get_piece_size()))):
            raise UserError(f"{model} has byte fallback, which fairseq cannot undo: train without")

    def encode(self, line: str) -> str:
        """Pieces separated by spaces, as fairseq reads them."""
        pieces = self.processor.encode(one_line_of_text(line), out_type=str)
        return " ".join(plain_pieces(pieces, self.processor))


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
) -> List[str]:
    """Pieces that fairseq takes for nothing but text: a ``</s>`` that SentencePiece does not know
    comes out whole, and would end the sentence, so it is cut into characters."""
    plain = []
    for piece in pieces:
        unknown = piece in SPECIAL and processor.piece_to_id(piece) == processor.unk_id()
        plain.extend(piece if unknown else [piece])
    return plain
