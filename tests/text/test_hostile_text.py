"""No line of text is lost, shifted or split, whatever is in it."""

import gzip
import os
import re
import threading
import unicodedata
from itertools import product
from pathlib import Path

import hostile_lines
import pytest
from command import resmlp, standard_input
from fairseq.data import Dictionary
from fairseq.tokenizer import tokenize_line
from fairseq_programs import call
from fairseq_programs import lines as lines_of
from hypothesis import example, given
from prepare_text import write_side

from resmlp_mt.text import train_subwords
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.lines import MARK, arriving_lines, read_lines, read_text, write_lines
from resmlp_mt_runtime.pieces import NFC, Subwords, nfc

FIXED = hostile_lines.FIXED
MANY = [line.encode() for line in FIXED] + [b""] * 300
GREEDY = ("--cpu", "--beam", 1, "--max-len-b", 5)
BY_LINE = (*GREEDY, "--buffer-size", 1000, "--batch-size", 1000)


def letters(text):
    """The letters and digits of a text, in NFC."""
    normal = unicodedata.normalize("NFC", text)
    return "".join(c for c in normal if unicodedata.category(c)[0] in "LN")


def text_of(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8")


def lines_in(content: bytes):
    """The lines of a file up to the first that is not UTF-8, and the number of that one, or 0."""
    raw, lines = content.split(b"\n"), []
    raw = raw if raw[-1] else raw[:-1]
    for number, line in enumerate([line.removeprefix(MARK) for line in raw[:1]] + raw[1:], 1):
        nuls = line.count(0)
        if nuls > 1 and 3 * nuls >= len(line.rstrip(b"\r")):  # UTF-16 without a mark
            return lines, number
        try:
            lines.append(text_of(line))
        except UnicodeDecodeError:
            return lines, number
    return lines, 0


@given(content=hostile_lines.files())
@example(content="\r\nw01\n".join(FIXED).encode())
@example(content="\ufeffw01\n\ufeffw02".encode())
@example(content="\ufeff".encode())
def test_the_lines_of_a_file_are_those_that_wc_counts(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("read") / "file"
    path.write_bytes(content)
    lines, wrong = lines_in(content)

    def found(read, *arguments):
        try:
            with standard_input(content):
                whole = list(read(*arguments))
        except UserError as error:
            assert wrong and re.search(f"line {wrong}: (invalid UTF-8|not text)", str(error))
            return lines
        assert not wrong
        return whole

    packed = path.with_suffix(".gz")
    packed.write_bytes(gzip.compress(content))
    assert found(read_lines, path) == found(read_lines, packed) == lines
    if not wrong:
        write_lines(path, lines)
        assert path.read_bytes() == "".join(f"{line}\n" for line in lines).encode()
        path.write_bytes(content)
    if lines or wrong:
        assert found(read_text, path) == found(read_text, Path("-")) == lines


def test_a_pause_is_not_the_end_of_a_pipe_that_does_not_block(monkeypatch):
    asks, question = os.pipe()
    os.set_blocking(asks, False)
    with open(asks) as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        os.write(question, b"a\n")
        found = arriving_lines(Path("-"))
        assert next(filter(None, found)) == "a"
        threading.Timer(0.3, lambda: (os.write(question, b"b\n"), os.close(question))).start()
        assert list(filter(None, found)) == ["b"]


@pytest.fixture(scope="module")
def subwords(tmp_path_factory):
    """A model that learnt hostile lines; one to which most of their characters are unknown."""
    folder = tmp_path_factory.mktemp("subwords")
    text = [line for line in FIXED if line] * 3 + ["w01 w02 w03 abc"] * 5
    others = [f"{number} слово" for number in range(100, 200)]
    models = (train_subwords(text, folder / "1", 500), train_subwords(others, folder / "2", 30))
    return [Subwords(model, NFC) for model in models]


@given(lines=hostile_lines.lines().map(lambda line: [line]))
@example(lines=FIXED)
def test_no_letter_of_a_line_is_lost(subwords, lines):
    for line, model in product(lines, subwords):
        pieces = model.encode(line)
        assert tokenize_line(" ".join(pieces)) == pieces
        dictionary = Dictionary()
        assert all(dictionary.index(piece) == dictionary.unk() for piece in pieces)
        decoded = "".join(pieces).replace("▁", " ").strip()
        assert decoded == nfc(line) and letters(decoded) == letters(line), line
        assert model.encode(decoded) == pieces


def test_translate_and_fairseq_interactive_agree_on_every_line(world, tmp_path):
    """The same translation of each line. fairseq ends lines at a carriage return, too."""
    write_side(tmp_path / "input", MANY)
    words = ("translate", "--path", world.checkpoint, "--data", world.data, *GREEDY)
    words += ("--input", tmp_path / "input", "--output", tmp_path / "output", "--threads", 1)
    assert resmlp(*words).status == 0
    output = (tmp_path / "output").read_bytes().decode().split("\n")
    assert output.pop() == "" and len(output) == len(MANY)
    bpe = ("--bpe", "sentencepiece", "--sentencepiece-model", world.data / "spm.model")
    options = (world.data, "--path", world.checkpoint, *BY_LINE, *bpe)
    whole = [number for number, line in enumerate(MANY) if b"\r" not in line]
    said = call("interactive", *options, stdin=b"".join(MANY[n] + b"\n" for n in whole)).out
    its, sources = lines_of(said, "D"), lines_of(said, "S")
    assert sorted(its) == list(range(len(whole)))
    dictionary = Dictionary.load(str(world.data / "dict.xx.txt"))
    encode = Subwords(world.spm, NFC).encode
    for number, index in enumerate(whole):
        line, found = MANY[index], output[index]
        pieces = " ".join(encode(text_of(line)))
        known = dictionary.string(dictionary.encode_line(pieces, add_if_not_exist=False))
        assert sources[number] == [[known]], line
        assert found == (its[number][0][1] if pieces else ""), line
