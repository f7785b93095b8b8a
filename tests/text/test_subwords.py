"""SentencePiece: what is encoded decodes to the same words; impossible vocabularies are refused."""

import pytest

from resmlp_mt.errors import UserError
from resmlp_mt.text.subwords import Subwords, one_line_of_text, train_subwords

TEXT = [
    f"the {a} {b} sees a {c}" for a in ("old", "new") for b in ("cat", "dog") for c in ("fox", "ox")
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return Subwords(train_subwords(TEXT, tmp_path_factory.mktemp("spm") / "spm", 45))


def test_pieces_give_the_text_back(model):
    for line in TEXT:
        assert model.decode(model.encode(line)) == line


@pytest.mark.parametrize("line", ["", "   ", "a\u2028b", "<s> </s> <pad> <unk>", "🙂", "x\0y\rz"])
def test_any_text_is_one_line_of_pieces(model, line):
    pieces = model.encode(line)
    assert len(pieces.splitlines()) <= 1
    assert not {"<s>", "</s>", "<pad>", "<unk>"} & set(pieces.split())


def test_a_vocabulary_that_the_text_is_too_small_for(tmp_path):
    with pytest.raises(UserError, match=r"--vocab-size 5000 .* at most \d+$"):
        train_subwords(TEXT, tmp_path / "spm", 5000)
    assert not list(tmp_path.iterdir())


def test_a_vocabulary_smaller_than_the_alphabet(tmp_path):
    with pytest.raises(UserError, match="--vocab-size 3 is less"):
        train_subwords(TEXT, tmp_path / "spm", 3)


def test_text_that_sentencepiece_cannot_take():
    assert one_line_of_text(" ä\u2028b\0") == "ä b"
    with pytest.raises(UserError, match=r"'w01 \\udcff': invalid UTF-8"):
        one_line_of_text("w01\n\udcff")
