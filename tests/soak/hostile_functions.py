"""What holds of any text, function by function. Hypothesis gives each its inputs."""

import io
import sys
import tempfile
import unicodedata
from pathlib import Path
from typing import List, Tuple
from unittest import mock

from fairseq.data import Dictionary
from fairseq.tokenizer import tokenize_line
from fairseq_cli import interactive
from hostile_lines import FIXED

from resmlp_mt.errors import UserError
from resmlp_mt.prepare.cleaning import Cleaner
from resmlp_mt.score.generated import read_system
from resmlp_mt.score.sacre import score
from resmlp_mt.score.tokenized_bleu import tokenized_scores
from resmlp_mt.text.lines import one_line, read_lines, read_text, write_lines
from resmlp_mt.text.subwords import Subwords, train_subwords

DROPPED = {"invalid-utf8", "empty", "too-long"}


def letters(text: str) -> str:
    """The letters and digits of a text, as SentencePiece writes them (NFKC)."""
    normal = unicodedata.normalize("NFKC", text)
    return "".join(c for c in normal if unicodedata.category(c)[0] in "LN")


class Functions:
    """
    Args:
        folder: for files.

    Attributes:
        tried: inputs so far, by property.
    """

    def __init__(self, folder: Path):
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        text = [line for line in FIXED if line] * 3 + ["w01 w02 w03 abc"] * 5
        # of digits and Cyrillic alone: to it every special symbol's name is one unknown piece
        others = [f"{number} слово" for number in range(100, 200)]
        self.models = [
            Subwords(train_subwords(text, self.folder / "hostile", 500)),
            Subwords(train_subwords(others, self.folder / "others", 30)),
        ]
        self.cleaners = [Cleaner(("en", "de"), normalise, True, 250) for normalise in (True, False)]
        self.tried = dict.fromkeys(("reading", "subwords", "cleaning", "scoring"), 0)

    def reading(self, content: bytes) -> None:
        """A file's lines are those that ``wc`` counts, or the first that is no UTF-8 is named."""
        self.tried["reading"] += 1
        path = self.folder / "file"
        path.write_bytes(content)
        expected, wrong = _lines_of(content)

        def found(read) -> List[str]:
            try:
                return list(read())
            except UserError as error:
                assert wrong and f"line {wrong}: invalid UTF-8" in str(error), str(error)
                assert "\n" not in str(error)
                return expected

        expected = without_mark(expected)
        assert found(lambda: read_lines(path)) == expected
        stdin = io.TextIOWrapper(io.BytesIO(content), "utf-8")
        if expected or wrong:
            assert found(lambda: read_text(path)) == expected
            with mock.patch.object(sys, "stdin", stdin):
                assert found(lambda: read_text(Path("-"))) == expected
        for source in (str(path), "-"):
            stdin = io.TextIOWrapper(io.BytesIO(content), "utf-8")
            with mock.patch.object(sys, "stdin", stdin):
                buffers = found(lambda s=source: interactive.buffered_read(s, 3))
            if not wrong:
                assert [line for buffer in buffers for line in buffer] == [
                    line.strip() for line in expected
                ]
                assert all(len(buffer) == 3 for buffer in buffers[:-1])

    def subwords(self, line: str) -> None:
        """One line of pieces, which fairseq takes for text and nothing else; no letter is lost."""
        self.tried["subwords"] += 1
        for model in self.models:
            encoded = model.encode(line)
            pieces = encoded.split(" ") if encoded else []
            assert tokenize_line(encoded) == pieces
            dictionary = Dictionary()
            assert all(dictionary.index(piece) == dictionary.unk() for piece in pieces)
            decoded = "".join(pieces).replace("▁", " ").strip()
            normal = model.processor.normalize(one_line(line)).replace("▁", " ").strip()
            assert decoded == normal
            # SentencePiece knows newer letters than Python does
            if all(unicodedata.category(c) != "Cn" for c in line):
                assert letters(decoded) == letters(line)
            assert model.encode(decoded) == encoded

    def cleaning(self, source: str, target: str) -> None:
        """A pair of training text is kept, each side one line, or there is a reason."""
        self.tried["cleaning"] += 1
        for cleaner in self.cleaners:
            found = cleaner(f"{source}\n".encode(), f"{target}\n".encode())
            if isinstance(found, str):
                assert found in DROPPED
                continue
            for side, before in zip(found, (source, target)):
                text = side.decode()
                assert text and text == one_line(text) and len(text.splitlines()) == 1
                assert letters(text) == letters(before), (before, text)

    def scoring(self, hypotheses: List[str], references: List[str]) -> None:
        """Translations are read line by line and scored, whatever they say."""
        self.tried["scoring"] += 1
        size = min(len(hypotheses), len(references))
        if not size:
            return
        hypotheses, references = hypotheses[:size], references[:size]
        path = self.folder / "text"
        write_lines(path, hypotheses)
        assert read_system(path, size) == without_mark([line.rstrip("\r") for line in hypotheses])
        found = score(hypotheses, references, "de")
        found.update(tokenized_scores(hypotheses, references, "de"))
        for name in ("bleu", "chrf", "tokenized_bleu", "compound_split_bleu"):
            assert 0 <= found[name] <= 100.01, (name, found[name])


def without_mark(lines: List[str]) -> List[str]:
    """Lines as commands read them: a byte order mark at the start of a file is no text."""
    return [line if number else line.removeprefix("\ufeff") for number, line in enumerate(lines)]


def _lines_of(content: bytes) -> Tuple[List[str], int]:
    """The lines of a file up to the first that is no UTF-8, and the number of that one, or 0."""
    lines: List[str] = []
    raw = content.split(b"\n")
    for number, line in enumerate(raw if raw[-1] else raw[:-1], 1):
        try:
            lines.append(line.rstrip(b"\r").decode("utf-8"))
        except UnicodeDecodeError:
            return lines, number
    return lines, 0
