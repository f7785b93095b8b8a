"""A text to translate: its lines as subwords, checked and in batches of similar length."""

from pathlib import Path
from typing import List, Optional

from fairseq.tokenizer import tokenize_line

from resmlp_mt.errors import UserError
from resmlp_mt.text.lines import name_of, read_text
from resmlp_mt.text.normalise import Normaliser
from resmlp_mt.text.subwords import load_subwords
from resmlp_mt.translate.translator import by_length


class SourceText:
    """
    Args:
        path: a file, plain or ``.gz``, or ``-`` for standard input.
        spm: the SentencePiece model that the training data were encoded with.

    Attributes:
        pieces: for each line its subwords, once it is encoded; none for a line without a word,
            which is not translated.

    Raises:
        UserError: if a file is missing, empty, damaged or not UTF-8.
    """

    def __init__(self, path: Path, spm: Path):
        self.path = path
        self._lines = read_text(path)
        if not spm.is_file():
            raise UserError(f"{spm}: no such file: give the SentencePiece model of the data, --spm")
        self._subwords = load_subwords(spm, f"{spm} is not a SentencePiece model")
        self.pieces: List[List[str]] = []

    def encode(self, language: Optional[str]) -> None:
        """Split the lines into subwords.

        Args:
            language: normalise as the training text of this language was; None: leave it as it is.
        """
        normalise = Normaliser(language) if language else str
        self.pieces = [
            tokenize_line(self._subwords.encode(normalise(line))) for line in self._lines
        ]

    @property
    def wanted(self) -> List[int]:
        """Numbers of the lines that have something to translate."""
        return [number for number, pieces in enumerate(self.pieces) if pieces]

    def fit(self, positions: int, truncate: bool) -> int:
        """Look for lines that are longer than the model's positions.

        Args:
            positions: tokens that the model takes, with the end of the sentence.
            truncate: cut such lines off, in place of refusing them.

        Returns:
            how many were cut off.

        Raises:
            UserError: naming the first such line.
        """
        limit = positions - 1
        long = [number for number, pieces in enumerate(self.pieces) if len(pieces) > limit]
        if long and not truncate:
            raise UserError(
                f"{name_of(self.path)}, line {long[0] + 1}: {len(self.pieces[long[0]])} pieces, "
                f"but the model takes {limit} ({len(long)} such lines): split or shorten them, or "
                "have only their beginnings translated with --truncate"
            )
        for number in long:
            del self.pieces[number][limit:]
        return len(long)

    def unknown(self, dictionary: Path) -> float:
        """The share of pieces that are not in a dictionary of fairseq's.

        Raises:
            UserError: if it cannot be read.
        """
        try:
            known = {line.split(" ")[0] for line in dictionary.read_text("utf-8").split("\n")}
        except (OSError, UnicodeDecodeError):
            raise UserError(f"{dictionary} is no dictionary: give the data-bin folder") from None
        pieces = [piece for pieces in self.pieces for piece in pieces]
        return sum(piece not in known for piece in pieces) / max(1, len(pieces))

    def batches(self, max_tokens: int) -> List[List[int]]:
        """Numbers of the lines to translate, the longest first, in batches of similar length.

        Args:
            max_tokens: of a batch, padding included; raised to the longest line.
        """
        lengths = [len(pieces) + 1 for pieces in self.pieces]  # the end of sentence counts
        return by_length(self.wanted, lengths, max_tokens)
