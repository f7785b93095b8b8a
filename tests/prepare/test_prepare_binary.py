"""The binary data: bit for bit what fairseq-preprocess makes of the same pieces."""

import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.options import get_preprocessing_parser
from prepare_text import pairs_of, sentences, write_pairs

from resmlp_mt.fairseq_fixes import logging_as_before
from resmlp_mt.prepare import binary, corpora
from resmlp_mt.prepare.corpora import Corpus
from resmlp_mt.prepare.encoding import encode
from resmlp_mt.text.lines import write_lines
from resmlp_mt.text.settings import TextSettings
from resmlp_mt.text.subwords import Subwords, train_subwords

with logging_as_before():
    from fairseq_cli import preprocess

SIDES = ("en", "de")
TRAIN = pairs_of(400, 1)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    lines = [side for pair in TRAIN for side in pair]
    return train_subwords(lines, tmp_path_factory.mktemp("spm") / "spm", 120)


def fairseq_preprocess(folder, splits, subwords, *options):
    """fairseq's own program on the same splits; gives its folder."""
    folder.mkdir()
    arguments = ["-s", SIDES[0], "-t", SIDES[1], "--joined-dictionary"]
    for name, pairs in splits.items():
        for side, lines in zip(SIDES, zip(*pairs)):
            write_lines(folder / f"{name}.{side}", map(subwords.encode, lines))
        arguments += [f"--{name}pref", folder / name]
    arguments += ["--destdir", folder / "data-bin", *options]
    preprocess.main(get_preprocessing_parser().parse_args(list(map(str, arguments))))
    (folder / "data-bin" / "preprocess.log").unlink()
    return folder / "data-bin"


def ours(folder, splits, model, monkeypatch):
    folder.mkdir()
    monkeypatch.setattr(corpora, "CHUNK_LINES", 64)
    monkeypatch.setattr(binary, "BLOCK", 50)
    text = folder.parent / "text"
    made = {}
    for name, pairs in splits.items():
        write_pairs(text, name, SIDES, pairs)
        made[name] = Corpus(name, *(text / f"{name}.{side}" for side in SIDES))
    settings = TextSettings(*SIDES, False, model)
    found = encode(made, 400, settings, (250, 1.5), 2, False, folder)
    for name in ("spm.model", "text.json"):
        (folder / name).unlink()
    return found


def assert_same(folder, other):
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in other.iterdir())
    assert len(names) == 3 * 2 * 2 + 2
    for name in names:
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name


ODD = [("漢字 ka lo mi", "ka lo Ж mi"), ("ka <unk> lo", "ka </s> lo mi"), ("ЖЖЖ", "ЖЖЖ")]


@pytest.mark.parametrize("odd", [[], ODD], ids=["all known", "unknown characters"])
def test_everything_is_what_fairseq_preprocess_makes(tmp_path, model, monkeypatch, odd):
    """Its dictionary too, where all characters of the text are pieces. It would make a word of
    each run of others, which are unknown to SentencePiece and to us: it is given our dictionary."""
    splits = {"train": TRAIN[:300] + odd, "valid": odd + pairs_of(9, 2), "test": odd or TRAIN[:3]}
    found = ours(tmp_path / "ours", splits, model, monkeypatch)
    options = ["--srcdict", tmp_path / "ours" / "dict.en.txt"] if odd else []
    its = fairseq_preprocess(tmp_path / "its", splits, Subwords(model), *options)
    assert_same(tmp_path / "ours", its)
    assert found["dropped"] == {} and found["splits"]["train"]["pairs"] == len(splits["train"])
    dictionary = Dictionary.load(str(tmp_path / "ours" / "dict.de.txt"))
    for side in SIDES:
        data = MMapIndexedDataset(str(tmp_path / "ours" / f"test.en-de.{side}"))
        words = [int(word) for sentence in data for word in sentence]
        unknown = words.count(dictionary.unk())
        assert found["splits"]["test"][side] == {"words": len(words), "unknown": unknown}
        assert words.count(dictionary.eos()) == 3 and bool(unknown) == bool(odd)


def test_pairs_of_unfit_length_are_left_out(tmp_path, model, monkeypatch):
    subwords = Subwords(model)
    word = sentences(1, 5, "")[0].split()[0]
    pieces = len(subwords.encode(word).split())
    assert pieces > 1
    line = " ".join([word] * (250 // pieces + 1))
    odd = [(line, line), (line, "ka"), (word, f"{word} {word}"), ("\u200b", "\u200b")]
    splits = {"train": [TRAIN[0], *odd, TRAIN[1]], "valid": odd, "test": odd}
    found = ours(tmp_path / "ours", splits, model, monkeypatch)
    assert found["dropped"] == {"too-long": 2, "length-ratio": 1, "empty": 1}
    counts = [found["splits"][split]["pairs"] for split in ("train", "valid", "test")]
    assert counts == [2, 4, 4]  # nothing is left out of what is translated
    data = MMapIndexedDataset(str(tmp_path / "ours" / "train.en-de.de"))
    dictionary = Dictionary.load(str(tmp_path / "ours" / "dict.de.txt"))
    decoded = [dictionary.string(data[n], "sentencepiece") for n in range(2)]
    assert decoded == [TRAIN[0][1], TRAIN[1][1]]
    found = ours(tmp_path / "none", {"train": odd[:1] * 70 + TRAIN[:1]}, model, monkeypatch)
    assert found["splits"]["train"]["pairs"] == 1  # nothing is left of a whole chunk
