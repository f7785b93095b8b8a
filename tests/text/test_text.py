"""No line of text is lost, shifted or split, whatever is in it. Subwords, the decision about text
that is stored beside them, and what is refused."""

import gzip
import json
import os
import pickle
import re
import shutil
import threading
import unicodedata
from itertools import product
from pathlib import Path

import hostile_lines
import pytest
from command import resmlp, standard_input
from fairseq.data import Dictionary, data_utils
from fairseq.tokenizer import tokenize_line
from fairseq_programs import call
from fairseq_programs import lines as lines_of
from hypothesis import example, given
from prepare_text import write_side
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from resmlp_mt.text import TextSettings, mark_unused, train_subwords
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.lines import MARK, arriving_lines, read_lines, read_text, write_lines
from resmlp_mt_runtime.pieces import NFC, Subwords, has_broken_bytes, nfc, without_bytes

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


def test_what_nobody_sees_divides_no_word(subwords):
    """A soft hyphen, a word joiner, a byte order mark; a joiner of Persian is a letter's."""
    for model in subwords:
        assert model.encode("w\xad0\u20601\ufeff\xad") == model.encode("w01")
        assert model.encode("\xad") == [] and "\u200c" in "".join(model.encode("w0\u200c1"))


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


LINE = "\N{LEFT DOUBLE QUOTATION MARK}a man\N{RIGHT DOUBLE QUOTATION MARK}, a dog"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    text = ['a man and a "dog", a red dog', "\N{LEFT DOUBLE QUOTATION MARK}a man"] * 20
    return train_subwords(text, tmp_path_factory.mktemp("model") / "joint", 24)


def test_settings_are_loaded_as_they_were_saved(model, tmp_path):
    settings = TextSettings("de", "en", model, NFC)
    settings.save(tmp_path)
    settings.save(tmp_path)
    shutil.copy(model, tmp_path / "spm.model")
    stored = TextSettings.load(tmp_path)
    assert stored == TextSettings("de", "en", tmp_path / "spm.model", NFC)
    assert TextSettings.load(tmp_path, model) == settings
    encode = Subwords(model).encode
    for found in (settings, stored, pickle.loads(pickle.dumps(stored))):
        assert found.subwords.encode(LINE) == encode(LINE)
    assert data_utils.post_process(" ".join(encode(LINE)), "sentencepiece") == LINE


def test_damaged_settings_are_refused(model, tmp_path):
    assert TextSettings.load(tmp_path) is None
    TextSettings("de", "en", model).save(tmp_path)
    for wrong in (b"", b"half", model.read_bytes().replace(b"dog", b"\xff\xfe\xfd")):
        (tmp_path / "spm.model").write_bytes(wrong)
        with pytest.raises(UserError, match="spm.model is not a SentencePiece model"):
            TextSettings.load(tmp_path).subwords.encode("a")
    (tmp_path / "text.json").write_text(json.dumps({"source_lang": "de", "normalise": True}))
    with pytest.raises(UserError, match="text.json does not say target_lang"):
        TextSettings.load(tmp_path)
    stored = {"source_lang": "de", "target_lang": "en", "normalise": True}
    (tmp_path / "text.json").write_text(json.dumps(stored))
    with pytest.raises(UserError, match='text.json: the text was normalised: set "normalise" to'):
        TextSettings.load(tmp_path)


def test_numbers_keep_their_value_in_models_of_the_old_rule(tmp_path):
    """SentencePiece's NFKC joins digits; what it does not join stays."""
    options = {"model_prefix": str(tmp_path / "old"), "byte_fallback": True, "minloglevel": 2}
    SentencePieceTrainer.train(sentence_iterator=iter(TEXT), vocab_size=277, **options)
    new = train_subwords(TEXT, tmp_path / "new", 20)
    for written, read in (
        ("10⁶ cells, 5 m² and 10⁻¹² s", "10^6 cells, 5 m2 and 10^−12 s"),
        ("1½ cups, 2¾ and ½", "1 1⁄2 cups, 2 3⁄4 and 1⁄2"),
        ("101₂, H₂O, 5①, ①2, x²3, ⒈5", "101 2, H2O, 5 1, 1 2, x2 3, 1. 5"),
        ("¹⁰ １２ 3．5", "10 12 3.5"),
    ):
        pieces = " ".join(Subwords(tmp_path / "old.model").encode(written))
        assert data_utils.post_process(pieces, "sentencepiece") == read
        assert Subwords(new, NFC).plain(written) == written == Subwords(new).plain(written)


@pytest.mark.parametrize("piece", ["</s>", "<0x41>"])
def test_a_model_with_a_symbol_as_a_piece_of_text_is_refused(tmp_path, piece):
    own = {"model_prefix": str(tmp_path / "own"), "eos_id": -1, "hard_vocab_limit": False}
    SentencePieceTrainer.train(sentence_iterator=iter(TEXT), user_defined_symbols=[piece], **own)
    with pytest.raises(UserError, match=f"own.model: {piece} is a symbol of fairseq: train"):
        Subwords(tmp_path / "own.model")


TEXT = [
    f"the {a} {b} sees a {c}" for a in ("old", "new") for b in ("cat", "dog") for c in ("fox", "ox")
]


def test_a_vocabulary_that_does_not_fit_the_text_is_refused(tmp_path):
    for lines, vocab_size, said in (
        (TEXT, 5000, "--vocab-size 5000: Vocabulary size too high (5000). Please set it to "),
        (TEXT, 3, "--vocab-size 3: Vocabulary size is smaller than required_chars. 3 vs "),
        (["", " ", "\t"], 40, "no line of 1 to 4192 bytes to learn subwords from"),
        (["w" * 4193, ""], 40, "no line of 1 to 4192 bytes"),
        (["w" * 4192, "w" * 4193], 40, "set it to a value <= "),
    ):
        with pytest.raises(UserError) as error:
            train_subwords(lines, tmp_path / "spm", vocab_size)
        assert said in str(error.value) and not list(tmp_path.iterdir())


@pytest.mark.parametrize("line", ["a cat 😀 sees Ω", "😀👍🏽", "<0xE2> <0x41>x", "é<0x0A>"])
def test_characters_that_are_spelled_in_bytes(tmp_path, line):
    """None is unknown, and each comes back, by fairseq's own way from pieces to text too."""
    subwords = Subwords(train_subwords(TEXT * 99 + ["é"], tmp_path / "spm", 300, 0.999))
    pieces = " ".join(subwords.encode(line))
    assert len(subwords.pieces) == 300 and subwords.processor.piece_to_id("é") == 0
    assert all(subwords.processor.piece_to_id(piece) for piece in pieces.split())
    assert data_utils.post_process(pieces, "sentencepiece") == line


def test_bytes_that_are_no_text_are_left_out():
    """has_broken_bytes says where; control characters are UTF-8."""
    for pieces, text in (
        ("<0xC3> a <0xF0> <0x9F>", " a "),
        ("<0x61> <0x0A> <0x62> b<0x63> <0x0a>", "a b b<0x63> <0x0a>"),
        ("<0xC2> <0x84> <0x57> <0x00>", "W"),  # a control character
        ("<0x9F> <0xE2> <0x9D> <0xA4> <0xEF> <0xB8> <0x8F> <0xE2>", "❤️"),
    ):
        assert without_bytes(pieces) == text
        assert has_broken_bytes(pieces.split()) == (text in (" a ", "❤️"))


def test_normal_pieces_become_unused_whatever_else_a_file_has(tmp_path):
    """And they alone; also in a file that leaves out a score of 0, as it may. Characters are then
    spelled in bytes."""
    lines, model = ["ab abc " * 90, "abc é " * 90], tmp_path / "own.model"
    given = {"model_type": "bpe", "vocab_size": 270, "byte_fallback": True, "minloglevel": 2}
    own = ["<sep>", f"<{'long' * 99}>"]
    given |= {"user_defined_symbols": own, "hard_vocab_limit": False}
    SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(model.with_suffix("")), **given
    )
    whole, piece = model.read_bytes(), b"\n\x05" + "▁ab".encode()
    start, end = whole.index(piece), whole.index(piece) + len(piece)
    bare = bytes([whole[start - 1] - 5]) + piece  # its size, without a score of five bytes
    for content in (whole, whole[: start - 1] + bare + whole[end + 5 :]):
        marked = mark_unused(content, range(1000))
        before, after = (SentencePieceProcessor(model_proto=x) for x in (content, marked))
        kinds = before.is_control, before.is_unknown, before.is_byte
        for number in range(before.get_piece_size()):
            piece, special = before.id_to_piece(number), any(is_kind(number) for is_kind in kinds)
            assert after.is_unused(number) == (not special and piece not in own)
            assert (after.id_to_piece(number) == piece) == (special or len(piece) > 1)
        assert after.encode("bé", out_type=str)[-3:] == ["<0x62>", "<0xC3>", "<0xA9>"]
    assert mark_unused(whole, []) == whole
