"""Text to pieces of SentencePiece's, and back.

A rule, which is stored with the model, normalizes a line before it is split:

- ``"nfc"``: Unicode's NFC, one space for a run of white space and control characters, no soft
  hyphens and the like. SentencePiece changes nothing more, so that text comes out as it was
  written.
- none: older models, whose SentencePiece model applies NFKC by itself. Digits that it would join
  into another number stay apart: 10⁶ is read as 10^6, 1½ as 1 1⁄2.
"""

import re
import unicodedata
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from resmlp_mt_runtime.errors import UserError

NFC = "nfc"
SPACE = "\N{LOWER ONE EIGHTH BLOCK}"  # at the start of a word
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]  # the first tokens of every fairseq dictionary

_SURROGATE = re.compile("[\ud800-\udfff]")
_BYTES = re.compile(r"(?<!\S)<0x[0-9A-F]{2}>( <0x[0-9A-F]{2}>)*(?!\S)")
# what NFKC makes digits of
_RAISED = "²³¹⁰⁴-⁹"
_NUMBER = "₀-₉¼-¾⅐-⅟↉①-⑳⒈-⒛⓪㉑-㉟㊱-㊿㋀-㋋㍘-㍰㏠-㏾🄀-🄊"
_POWER = re.compile(rf"(?<=\d)(?=[⁺⁻]?[{_RAISED}])")
_TOUCHING = re.compile(rf"(?<=\d)(?=[{_NUMBER}])|(?<=[{_RAISED}{_NUMBER}])(?=\d)")
CONTROL = re.compile("[\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")  # that are not white space
_INVISIBLE = re.compile("[\xad\u2060\ufeff]")


def one_line(text: str) -> str:
    """Replace every run of white space, line breaks and NUL by one space."""
    return " ".join(text.replace("\0", " ").split())


def half_pair(line: str) -> str:
    """What a *line* has that no UTF-8 has: half of a surrogate pair, or ""."""
    lone = _SURROGATE.search(line)
    return f"half of a surrogate pair ({lone[0]!r})" if lone else ""


def nfc(line: str) -> str:
    """The rule of new models. U+2581 is a space, as it is one to SentencePiece; soft hyphens, word
    joiners and the byte order marks of joined files are not text."""
    line = _INVISIBLE.sub("", CONTROL.sub(" ", line).replace(SPACE, " "))
    return unicodedata.normalize("NFC", one_line(line))


RULES = {None: one_line, NFC: nfc}


class Subwords:
    """A trained SentencePiece model, perhaps already read as *data*, and the rule for the text that
    it splits.

    Attributes:
        processor: SentencePiece's.
        pieces: all of them, by their numbers.
    """

    def __init__(self, model: Path, rule: str | None = None, data: bytes | None = None):
        from sentencepiece import SentencePieceProcessor  # fairseq's programs need none

        try:
            self.processor = SentencePieceProcessor()
            data = Path(model).read_bytes() if data is None else data
            self.processor.LoadFromSerializedProto(data)
            self.pieces = self.processor.id_to_piece(list(range(self.processor.get_piece_size())))
        except (OSError, RuntimeError, UnicodeDecodeError):
            wrong = "is not a SentencePiece model" if Path(model).exists() else "does not exist"
            raise UserError(f"{model} {wrong}: give the one of the data") from None
        symbol_kinds = self.processor.is_control, self.processor.is_unknown, self.processor.is_byte
        for n, piece in enumerate(self.pieces):
            read_as_symbol = piece in SPECIAL or _BYTES.fullmatch(piece)
            if read_as_symbol and not any(is_kind(n) for is_kind in symbol_kinds):
                raise UserError(f"{model}: {piece} is a symbol of fairseq: train without it")
        self.rule = rule
        self._joins_digits = self.processor.normalize("1²").endswith("12")

    def plain(self, line: str) -> str:
        """The line, normalized by the rule. Raises a UserError if it is not Unicode text."""
        if half := half_pair(line):
            raise UserError(f"not Unicode text: {half}")
        line = RULES[self.rule](line)
        if self._joins_digits:
            line = _TOUCHING.sub(" ", _POWER.sub("^", line))
        return line

    def encode(self, line: str) -> list[str]:
        """The pieces of a line; none if it is blank."""
        return plain_pieces(self.processor.encode(self.plain(line), out_type=str))


def plain_pieces(pieces: Iterable[str]) -> list[str]:
    """*pieces* with a literal ``</s>`` of the text split into characters, since fairseq would read
    it as the end of the sentence; the same for its other symbols."""
    return list(chain.from_iterable(x if x in SPECIAL else [x] for x in pieces))


def without_bytes(pieces: str) -> str:
    """*pieces*, separated by spaces, with each run of pieces that spell bytes replaced by its text.
    Bytes that are not UTF-8 and control characters are left out."""
    return _BYTES.sub(_spell, pieces)


def _spell(run: re.Match) -> str:
    return one_line(CONTROL.sub("", _bytes(run).decode(errors="ignore")))


def _bytes(run: re.Match) -> bytes:
    return bytes.fromhex(re.sub("<0x|>", "", run[0]))


def has_broken_bytes(pieces: Iterable[str]) -> bool:
    """Whether some of the bytes that *pieces* spell are not UTF-8."""
    runs = map(_bytes, _BYTES.finditer(" ".join(pieces)))
    return any(run != run.decode(errors="ignore").encode() for run in runs)
