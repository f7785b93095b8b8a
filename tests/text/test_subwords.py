"""Subwords, the decision about text that is stored beside them, and what is refused."""

import json
import pickle

import pytest
from fairseq.data import data_utils
from sentencepiece import SentencePieceTrainer

from resmlp_mt.text import TextSettings, train_subwords
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.pieces import NFC, Subwords, has_broken_bytes, without_bytes

LINE = "\N{LEFT DOUBLE QUOTATION MARK}a man\N{RIGHT DOUBLE QUOTATION MARK}, a dog"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    text = ['a man and a "dog", a red dog', "\N{LEFT DOUBLE QUOTATION MARK}a man"] * 20
    return train_subwords(text, tmp_path_factory.mktemp("model") / "joint", 24)


def test_settings_are_loaded_as_they_were_saved(model, tmp_path):
    settings = TextSettings("de", "en", model, NFC)
    settings.save(tmp_path)
    settings.save(tmp_path)
    stored = TextSettings.load(tmp_path)
    assert stored == TextSettings("de", "en", tmp_path / "spm.model", NFC)
    assert TextSettings.load(tmp_path, model) == settings
    assert (tmp_path / "spm.model").read_bytes() == model.read_bytes()
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


@pytest.mark.parametrize(
    "written, read",
    [
        ("10⁶ cells, 5 m² and 10⁻¹² s", "10^6 cells, 5 m2 and 10^−12 s"),
        ("1½ cups, 2¾ and ½", "1 1⁄2 cups, 2 3⁄4 and 1⁄2"),
        ("101₂, H₂O, 5①, ①2, x²3, ⒈5", "101 2, H2O, 5 1, 1 2, x2 3, 1. 5"),
        ("¹⁰ １２ 3．5", "10 12 3.5"),
    ],
)
def test_numbers_keep_their_value_in_models_of_the_old_rule(tmp_path, written, read):
    """SentencePiece's NFKC joins digits; what it does not join stays."""
    options = {"model_prefix": str(tmp_path / "old"), "byte_fallback": True, "minloglevel": 2}
    SentencePieceTrainer.train(sentence_iterator=iter(TEXT), vocab_size=277, **options)
    pieces = " ".join(Subwords(tmp_path / "old.model").encode(written))
    assert data_utils.post_process(pieces, "sentencepiece") == read
    new = train_subwords(TEXT, tmp_path / "new", 20)
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


@pytest.mark.parametrize(
    "lines, vocab_size, said",
    [
        (TEXT, 5000, "--vocab-size 5000: Vocabulary size too high (5000). Please set it to "),
        (TEXT, 3, "--vocab-size 3: Vocabulary size is smaller than required_chars. 3 vs "),
        (["", " ", "\t"], 40, "no line of 1 to 4192 bytes to learn subwords from"),
        (["w" * 4193, ""], 40, "no line of 1 to 4192 bytes"),
        (["w" * 4192, "w" * 4193], 40, "set it to a value <= "),
    ],
)
def test_a_vocabulary_that_does_not_fit_the_text_is_refused(tmp_path, lines, vocab_size, said):
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


@pytest.mark.parametrize(
    "pieces, text",
    [
        ("<0xC3> a <0xF0> <0x9F>", " a "),
        ("<0x61> <0x0A> <0x62> b<0x63> <0x0a>", "a b b<0x63> <0x0a>"),
        ("<0xC2> <0x84> <0x57> <0x00>", "W"),  # a control character
        ("<0x9F> <0xE2> <0x9D> <0xA4> <0xEF> <0xB8> <0x8F> <0xE2>", "❤️"),
    ],
)
def test_bytes_that_are_no_text_are_left_out(pieces, text):
    """has_broken_bytes says where; control characters are UTF-8."""
    assert without_bytes(pieces) == text
    assert has_broken_bytes(pieces.split()) == (text in (" a ", "❤️"))
