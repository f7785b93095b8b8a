"""Text for a model: how that of prepared data was made, and learning subwords from it."""

import io
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import sentencepiece

from resmlp_mt.model_folder import SUBWORDS, TEXT
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import read_json, write_json
from resmlp_mt_runtime.pieces import RULES, Subwords, nfc

# after the text of a normal piece in SentencePiece's file: its score, and type 1, the default
_NORMAL = re.compile(rb"(?:\x15.{4})?(?:\x18\x01)?", re.DOTALL)


class OptionError(UserError):
    """An option that the text rules out, such as a size of the vocabulary."""


@dataclass(frozen=True)
class TextSettings:
    """The languages, as fairseq calls them, and how text is processed."""

    source_lang: str
    target_lang: str
    subword_model: Path
    rule: str | None = None  # see resmlp_mt_runtime.pieces

    def save(self, folder: Path) -> None:
        """Write ``text.json``, beside ``spm.model``."""
        names = ("source_lang", "target_lang", "rule")
        write_json(Path(folder) / TEXT, {name: getattr(self, name) for name in names})

    @classmethod
    def load(cls, folder: Path, model: Path | None = None) -> "TextSettings | None":
        """The settings stored in a folder, None if there are none, with its subwords or *model*."""
        path = Path(folder) / TEXT
        if not path.is_file():
            return None
        found = read_json(path)
        for name in ("source_lang", "target_lang"):
            if not isinstance(found, dict) or not isinstance(found.get(name), str):
                raise UserError(f"{path} does not say {name}: prepare the data again")
        if found.get("normalise"):  # until 0.2
            wrong = 'the text was normalised: set "normalise" to false'
            raise UserError(f"{path}: {wrong}, and normalise what you translate as Moses does")
        rule = found.get("rule")
        if rule not in list(RULES):
            raise UserError(f"{path}: its rule {rule!r:.40} is not known: use a newer resmlp_mt")
        model = model or path.with_name(SUBWORDS)
        return cls(found["source_lang"], found["target_lang"], model, rule)

    @cached_property
    def subwords(self) -> Subwords:
        return Subwords(self.subword_model, self.rule)


def train_subwords(
    lines: Iterable[str],
    prefix: Path,
    vocab_size: int,
    character_coverage: float = 1.0,
    exact: bool = True,
) -> Path:
    """Train ``prefix.model``, joint BPE, for the *lines* of both languages, by the rule ``nfc``.

    If the text allows fewer than *vocab_size* pieces, the model has fewer, or, with *exact*, an
    OptionError is raised; a UserError if all lines are blank or of more than 4192 bytes, which are
    skipped. *character_coverage* is the share of the text's characters that get a piece. Below 1
    all others are spelled in bytes; at 1 characters that the text lacks are unknown.
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
            hard_vocab_limit=exact,
            # fairseq has these symbols itself
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            minloglevel=2,
        )
    except RuntimeError as error:
        if "sentences_.empty()" in str(error):
            wrong = "no line of 1 to 4192 bytes to learn subwords from: give text"
            raise UserError(wrong) from None
        reason = str(error).rpartition("] ")[2]  # after the place in SentencePiece's source
        if "ocabulary size" not in reason:
            raise
        raise OptionError(f"--vocab-size {vocab_size}: {reason}") from None
    path.write_bytes(model.getvalue())
    return path


def mark_unused(model: bytes, numbers: Container[int]) -> bytes:
    """SentencePiece's *model* with the normal pieces of these *numbers* marked as unused: they are
    only steps to longer ones. BPE cuts a word that would end in one into smaller pieces. A
    character has none: it gets another name, so that it is spelled in bytes, as an unknown one."""

    def number_at(place: int) -> tuple[int, int]:
        value = shift = 0
        while model[place] > 127:
            value |= (model[place] & 127) << shift
            place, shift = place + 1, shift + 7
        return value | model[place] << shift, place + 1

    def written(value: int) -> bytes:
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + written(value >> 7)

    # protocol buffers: pieces are field 1 of the model, and come first; field 1 of each is its text
    place, pieces = 0, list[bytes]()
    while model[place : place + 1] == b"\x0a":
        size, start = number_at(place + 1)
        length, text = number_at(start + 1)
        place = start + size
        piece, rest = model[start:place], model[text + length : place]
        if len(pieces) in numbers and piece[:1] == b"\x0a" and _NORMAL.fullmatch(rest):
            if len(model[text : text + length].decode()) == 1:
                name = b" %d" % len(pieces)  # no text has a space when it is cut
                piece = b"\x0a" + written(len(name)) + name + rest
            piece += b"\x18\x05"  # of two types the last counts
        pieces.append(b"\x0a" + written(len(piece)) + piece)
    return b"".join(pieces) + model[place:]
