"""SentencePiece: text, vocabularies and models that are refused."""

import pytest
import sentencepiece

from resmlp_mt.errors import UserError
from resmlp_mt.text.subwords import MAX_BYTES, Subwords, one_line_of_text, train_subwords

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
