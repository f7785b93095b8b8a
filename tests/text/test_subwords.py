"""Subwords, the decision about text that is stored beside them, and what is refused."""

import json
import pickle

import pytest
import sentencepiece
from fairseq.data.data_utils import post_process

from resmlp_mt.errors import UserError
from resmlp_mt.text.settings import TextSettings
from resmlp_mt.text.subwords import MAX_BYTES, Subwords, one_line_of_text, train_subwords

LINE = "\N{LEFT DOUBLE QUOTATION MARK}a man\N{RIGHT DOUBLE QUOTATION MARK}, a dog"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    text = ['a man and a "dog", a red dog', "\N{LEFT DOUBLE QUOTATION MARK}a man"] * 20
    return train_subwords(text, tmp_path_factory.mktemp("model") / "joint", 24)


@pytest.mark.parametrize("normalise", [False, True])
def test_they_are_read_as_they_were_saved(model, tmp_path, normalise):
    settings = TextSettings("de", "en", normalise, model)
    settings.save(tmp_path)
    settings.save(tmp_path)
    stored = TextSettings.load(tmp_path)
    assert stored == TextSettings("de", "en", normalise, tmp_path / "spm.model")
    assert stored == TextSettings.beside(tmp_path / "spm.model")
    assert (tmp_path / "spm.model").read_bytes() == model.read_bytes()
    encode = Subwords(model).encode
    # only in English does a comma move before the closing quotation mark
    english, german = ('"a man," a dog', '"a man", a dog') if normalise else (LINE, LINE)
    for found in (settings, stored, pickle.loads(pickle.dumps(stored))):
        assert found.plain("en")(LINE) == english
        assert found.encode_source(LINE) == encode(german)
    assert post_process(encode(german), "sentencepiece") == german


def test_in_the_other_direction(model):
    settings = TextSettings("de", "en", True, model)
    assert settings.reading("de") == settings.reading("fr") == settings
    back = settings.reading("en")
    assert back == TextSettings("en", "de", True, model) and back.reading("de") == settings
    assert back.encode_source(LINE) != settings.encode_source(LINE)


def test_no_settings(model, tmp_path):
    assert TextSettings.beside(model) is None
    with pytest.raises(UserError, match="has no text.json.* `resmlp-mt prepare`"):
        TextSettings.load(tmp_path)
    TextSettings("de", "en", True, model).save(tmp_path)
    (tmp_path / "spm.model").write_bytes(b"half")
    with pytest.raises(UserError, match="spm.model is not a SentencePiece model"):
        TextSettings.load(tmp_path).encode_source("a")
    (tmp_path / "text.json").write_text(json.dumps({"source_lang": "de", "normalise": True}))
    with pytest.raises(UserError, match="text.json does not say target_lang"):
        TextSettings.beside(tmp_path / "spm.model")
    (tmp_path / "spm.model").unlink()
    with pytest.raises(UserError, match="has no spm.model"):
        TextSettings.load(tmp_path)


TEXT = [
    f"the {a} {b} sees a {c}" for a in ("old", "new") for b in ("cat", "dog") for c in ("fox", "ox")
]


@pytest.mark.parametrize(
    "lines, vocab_size, said",
    [
        (TEXT, 5000, "--vocab-size 5000 is more than this corpus allows: at most "),
        (TEXT, 3, "--vocab-size 3 is less than the corpus has characters"),
        (["", " ", "\t"], 40, "no line to learn subwords from (0 that are too long)"),
        (["w" * (MAX_BYTES + 1), ""], 40, "(1 that are too long)"),
        (["w" * MAX_BYTES, "w" * (MAX_BYTES + 1)], 40, "at most"),
    ],
)
def test_text_that_nothing_is_learnt_from(tmp_path, lines, vocab_size, said):
    with pytest.raises(UserError) as error:
        train_subwords(lines, tmp_path / "spm", vocab_size)
    assert said in str(error.value) and not list(tmp_path.iterdir())


def test_what_nothing_is_learnt_from_is_counted(tmp_path, capsys):
    train_subwords([*TEXT, "the " * 2000, "", "▅"], tmp_path / "spm", 45)
    assert "without 2 lines" in capsys.readouterr().err


def test_what_is_refused(tmp_path):
    with pytest.raises(UserError, match="none/spm.model could not be written: No such file"):
        train_subwords(TEXT, tmp_path / "none" / "spm", 45)
    with pytest.raises(UserError, match=r"'w01 \\udcff': invalid UTF-8"):
        one_line_of_text("w01\n\udcff")
    # the bytes of byte fallback would stay in the text that is read from pieces
    options = dict(vocab_size=276, byte_fallback=True, minloglevel=2)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT * 3), model_prefix=str(tmp_path / "bytes"), **options
    )
    with pytest.raises(UserError, match="bytes.model has byte fallback"):
        Subwords(tmp_path / "bytes.model")
