"""The decision about text, stored beside the data."""

import json
import pickle

import pytest
from fairseq.data.data_utils import post_process

from resmlp_mt.errors import UserError
from resmlp_mt.text.settings import TextSettings
from resmlp_mt.text.subwords import Subwords, train_subwords

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
