"""SentencePiece: what is encoded decodes to the same words; impossible vocabularies are refused."""

import pytest
import subwords as script
from small_world import run_script

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
        pieces = model.encode(line)
        assert pieces.replace(" ", "").replace("▁", " ").strip() == line


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


@pytest.fixture
def encode(tmp_path):
    """Runs subwords.py encode on files of these names and contents."""
    spm = train_subwords(TEXT, tmp_path / "spm", 45)

    def encode(**contents):
        folder = tmp_path / "text"
        folder.mkdir()
        paths = [folder / name.replace("_", ".") for name in contents]
        for path, content in zip(paths, contents.values()):
            path.write_bytes(content)
        said = run_script(script, "encode", "--model", spm, *paths)
        return said, sorted(path.name for path in folder.iterdir())

    return encode


def test_encoding_files(encode):
    said, there = encode(a_en=b"the old cat\n", b_en=b"the new cat\n")
    assert said.status == 0 and there == ["a.en", "a.sp.en", "b.en", "b.sp.en"]
    assert [line.rsplit("/")[-1] for line in said.out.splitlines()] == ["a.sp.en", "b.sp.en"]


def test_a_refused_file_leaves_nothing_half_written(encode):
    said, there = encode(bad_en=b"the\nold\ncat\n\xff\n")
    assert said.status == 1 and len(said.err) == 1
    assert "bad.en, line 4: invalid UTF-8" in said.err[0]
    assert there == ["bad.en"]


def test_files_that_would_be_written_over_one_another(encode):
    said, there = encode(b_en=b"the\n", a_en=b"the\n", a_en_gz=b"whatever")
    assert said.status == 1 and len(said.err) == 1 and not said.out
    names = ("a.en and ", "a.en.gz would both be written to ", "a.sp.en")
    assert all(name in said.err[0] for name in names), said.err
    assert there == ["a.en", "a.en.gz", "b.en"]


def test_pieces_of_an_earlier_call_are_no_text(encode):
    """As in a second "encode text/*.en"."""
    said, there = encode(a_en=b"the old cat\n", a_sp_en=b"before\n")
    assert said.status == 0 and there == ["a.en", "a.sp.en"]
    assert "a.sp.en is written, not read" in said.err[0]
    assert [line.rsplit("/")[-1] for line in said.out.splitlines()] == ["a.sp.en"]


def test_text_that_sentencepiece_cannot_take():
    assert one_line_of_text(" ä\u2028b\0") == "ä b"
    with pytest.raises(UserError, match=r"'w01 \\udcff': invalid UTF-8"):
        one_line_of_text("w01\n\udcff")
