"""From raw lines to clean text: what is normalised, dropped, found twice, sampled and refused."""

import gzip
import random
from collections import Counter

import pytest
from prepare_text import pairs_of, write_corpus, write_layout, write_side

from resmlp_mt.errors import UserError
from resmlp_mt.prepare import duplicates, parallel
from resmlp_mt.prepare.cleaning import MAX_CHARACTERS, clean
from resmlp_mt.prepare.duplicates import DuplicateFinder, hash_of
from resmlp_mt.prepare.layout import find_text, inspect
from resmlp_mt.prepare.recipes import PAIRS
from resmlp_mt.prepare.text import read_kept, sample
from resmlp_mt.text.normalise import Normaliser

PAIR = PAIRS["en-de"]


@pytest.mark.parametrize(
    "language, text, normal",
    [
        ("en", "“Yes”, he said – it’s 5 %.", '"Yes," he said - it\'s 5%.'),
        ("de", "Er sagte: „Ja.“ Dann ging er.", 'Er sagte: "Ja". Dann ging er.'),
        ("fr", "«\u00a0Oui\u00a0», dit-il\u00a0; et alors\u00a0?", '"Oui", dit-il; et alors?'),
        ("en", "\ufeffsoft\u00adhy\u00adphen \u200eleft", "softhyphen left"),
        ("en", "a\tb\x00c\rd\u2028e\x0bf\x85g\u3000h", "a b c d e f g h"),
        ("en", "  \u00a0 \x00 ", ""),
    ],
)
def test_normalising(language, text, normal):
    normalise = Normaliser(language)
    assert normalise(text) == normal
    assert normalise(normal) == normal


def make(tmp_path, corpora, limit=None, workers=1):
    """Clean corpora given as lists of pairs; gives the report and the pairs that are kept."""
    folder = write_layout(tmp_path / "raw", PAIR, corpora)
    layout = find_text(folder, PAIR)
    contents = inspect(layout.train, 1)
    out = tmp_path / "text"
    out.mkdir()
    report = clean(layout.train, contents, PAIR, limit, workers, out)
    kept = [tuple(side.decode() for side in pair) for pair in read_kept(out, PAIR)]
    assert sorted(p.name for p in out.iterdir()) == ["keep.u8", "train.de", "train.en"]
    return report, [(source.removesuffix("\n"), target[:-1]) for source, target in kept]


HOSTILE = [
    (b"lone\rreturn", b"1"),
    ("line\u2028separator".encode(), b"2"),
    (b"nul\x00byte", b"3"),
    (b"\xef\xbb\xbfbyte order mark", b"4"),
    (b"next\xc2\x85line \x0b\x0c\x1c\x1d\x1e", b"5"),
    (b"windows\r", b"6\r"),
    (b"\xff invalid", b"7"),
    (b"valid", b"\xc3"),
    ("replaced \ufffd".encode(), b"9"),
    (b"x" * 1_000_000, b"10"),
    (b"11", b"y " * 500_000),
    (b"", b"12"),
    (b"13", b" \xc2\xa0\t"),
    (b"only invisible: not empty", b"14"),
    (b"\x00\x01", b"15"),
    (b"last", b"16"),
]


def test_hostile_lines_never_shift_the_sides(tmp_path):
    report, kept = make(tmp_path, {"a": HOSTILE})
    assert report["a"] == {
        "read": 16,
        "kept": 8,
        "invalid-utf8": 3,
        "too-long": 2,
        "empty": 3,
    }
    assert kept == [
        ("lone return", "1"),
        ("line separator", "2"),
        ("nul byte", "3"),
        ("byte order mark", "4"),
        ("next line", "5"),
        ("windows", "6"),
        ("only invisible: not empty", "14"),
        ("last", "16"),
    ]


def test_a_side_as_long_as_allowed_is_kept(tmp_path):
    report, kept = make(tmp_path, {"a": [("x" * MAX_CHARACTERS, "y"), ("x" * 4001, "y")]})
    assert report["a"]["too-long"] == 1 and len(kept) == 1


def test_pairs_are_kept_once_over_all_corpora(tmp_path):
    first, second = pairs_of(40, 1), pairs_of(40, 2)
    other = [(second[0][0], second[1][1])]  # neither side is new, the pair is
    corpora = {"a": first + first[:5], "b": second[:10] + first[10:20] + other, "c": second}
    report, kept = make(tmp_path, corpora)
    assert kept == first + second[:10] + other + second[10:]
    assert [report[name].get("duplicate") for name in "abc"] == [5, 10, 10]
    assert [report[name]["kept"] for name in "abc"] == [40, 11, 30]


def test_pairs_that_are_the_same_after_normalising_are_duplicates(tmp_path):
    report, kept = make(tmp_path, {"a": [("it’s", "x"), ("it's", "x"), ("it's ", " x")]})
    assert kept == [("it's", "x")] and report["a"]["duplicate"] == 2


def test_a_limit_holds_for_each_corpus(tmp_path):
    first, second = pairs_of(40, 1), pairs_of(40, 2)
    report, kept = make(tmp_path, {"a": first, "b": second[:7]}, limit=10)
    assert kept == first[:10] + second[:7]
    assert [report[name]["read"] for name in "ab"] == [10, 7]


def test_the_result_depends_on_neither_workers_nor_chunks(tmp_path, monkeypatch):
    corpora = {"a": HOSTILE + pairs_of(300, 1), "b": pairs_of(300, 2) + pairs_of(200, 1)}
    whole = make(tmp_path / "1", corpora)
    monkeypatch.setattr("resmlp_mt.prepare.parallel.CHUNK_LINES", 17)
    assert make(tmp_path / "2", corpora, workers=3) == whole
    monkeypatch.setattr("resmlp_mt.prepare.parallel.CHUNK_LINES", 8192)
    monkeypatch.setattr("resmlp_mt.prepare.parallel.CHUNK_BYTES", 500)
    assert make(tmp_path / "3", corpora, workers=2) == whole


def test_duplicates_in_many_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(duplicates, "BUFFER", 64)
    draw = random.Random(1)
    lines = [str(draw.randrange(3000)).encode() for _ in range(5000)]
    seen, expected = set(), bytearray()
    for line in lines:
        expected.append(line not in seen)
        seen.add(line)
    with DuplicateFinder(tmp_path / "hashes") as finder:
        for start in range(0, len(lines), 700):
            finder.add(b"".join(hash_of(line, b"same") for line in lines[start : start + 700]))
        finder.write_mask(tmp_path / "mask")
    assert (tmp_path / "mask").read_bytes() == expected
    assert not (tmp_path / "hashes").exists()


def test_both_halves_of_a_hash_count(tmp_path):
    hashes = [b"\0" * 8 + b"a" * 8, b"\0" * 8 + b"b" * 8, b"\0" * 7 + b"\1" + b"a" * 8]
    with DuplicateFinder(tmp_path / "hashes") as finder:
        finder.add(b"".join([*hashes, *hashes[::-1]]))
        finder.write_mask(tmp_path / "mask")
    assert (tmp_path / "mask").read_bytes() == bytes([1, 1, 1, 0, 0, 0])


def test_chunks_are_limited_in_lines_and_in_bytes(monkeypatch):
    monkeypatch.setattr(parallel, "CHUNK_LINES", 3)
    monkeypatch.setattr(parallel, "CHUNK_BYTES", 100)
    pairs = [(b"a", b"b")] * 4 + [(b"a" * 90, b"b" * 20)] * 2 + [(b"a" * 49, b"b")] * 3
    made = list(parallel.chunks(pairs))
    assert [len(sources) for sources, _ in made] == [3, 2, 1, 2, 1]
    assert [pair for chunk in made for pair in zip(*chunk)] == pairs


def test_the_corpus_is_read_only_a_little_ahead():
    read = []
    with parallel.Workers(2, int) as pool:
        for number, result in enumerate(pool.map(abs, (read.append(-n) or -n for n in range(50)))):
            assert result == number and len(read) <= number + 2 * 2 + 1
    assert len(read) == 50


def test_hashes_tell_the_sides_apart():
    assert len({hash_of(b"a", b"bc"), hash_of(b"ab", b"c"), hash_of(b"bc", b"a")}) == 3


def test_a_sample_has_its_size_and_every_line_its_chance():
    assert list(sample(iter("abc"), 3, 5, seed=1)) == list("abc")
    chosen = Counter()
    for seed in range(2000):
        lines = list(sample(iter(range(20)), 20, 5, seed))
        assert len(lines) == 5 and lines == sorted(lines)
        chosen.update(lines)
    assert list(sample(iter(range(20)), 20, 5, 7)) == list(sample(iter(range(20)), 20, 5, 7))
    # 500 times each, standard deviation 19
    assert len(chosen) == 20 and all(400 < number < 600 for number in chosen.values())


def refused(folder):
    with pytest.raises(UserError) as error:
        layout = find_text(folder, PAIR)
        inspect([*layout.train, layout.valid, layout.test], 2)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture
def folder(tmp_path):
    return write_layout(tmp_path / "raw", PAIR, {"a-v1.0": pairs_of(9, 1), "b": pairs_of(8, 2)})


def test_what_is_in_a_folder(folder):
    write_side(folder / "train-parts" / "notes.txt", ["not a corpus"])
    packed = folder / "train-parts" / "b.eng"
    packed.with_suffix(".eng.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    (folder / "train-parts" / "a-v1.0.deu").write_bytes(b"x\n" * 8 + b"no line break at its end")
    layout = find_text(folder, PAIR)
    assert [corpus.name for corpus in layout.train] == ["a-v1.0", "b"]
    found = inspect(layout.train, 2)
    assert [contents.pairs for contents in found] == [9, 8]
    sizes = sum(len(gzip.decompress(p.read_bytes())) for p in folder.glob("train-parts/b*.gz"))
    assert found[1].bytes == sizes + layout.train[1].target.stat().st_size


def test_one_side_is_shorter(folder):
    write_corpus(folder / "train-parts", "b", PAIR, pairs_of(8, 2))
    write_side(folder / "train-parts" / "b.deu", ["x"] * 7)
    message = refused(folder)
    assert "b.eng has 8 lines but" in message and "b.deu has 7" in message


def test_a_corrupt_gzip(folder):
    for damage in (lambda whole: whole[:-9], lambda whole: b"no gzip at all"):
        packed = gzip.compress(b"x\n" * 8)
        (folder / "train-parts" / "b.deu.gz").write_bytes(damage(packed))
        (folder / "train-parts" / "b.deu").unlink(missing_ok=True)
        assert "b.deu.gz: damaged gzip file" in refused(folder)


@pytest.mark.parametrize(
    "lost, said",
    [
        ("train-parts/b.deu", "b.deu is missing: a corpus needs both sides"),
        ("dev.eng", "dev.eng is missing"),
        ("test1.deu", "test1.deu is missing"),
    ],
)
def test_a_missing_file(folder, lost, said):
    (folder / lost).unlink()
    assert said in refused(folder)


def test_two_files_of_one_corpus(folder):
    (folder / "train-parts" / "b.deu.gz").write_bytes(gzip.compress(b"x\n"))
    assert "two files of one corpus" in refused(folder)


def test_empty_folders_and_files(folder, tmp_path):
    assert "nowhere: no such folder" in refused(tmp_path / "nowhere")
    for name in ("b.eng", "b.deu"):
        (folder / "train-parts" / name).write_bytes(b"")
    assert "b.eng: empty file" in refused(folder)
    for path in (folder / "train-parts").iterdir():
        path.unlink()
    assert "no training text: put NAME.eng and NAME.deu in train-parts/" in refused(folder)


def test_the_normalisers_are_of_both_languages(tmp_path):
    """Only in English does the comma go before the closing quotation mark."""
    _, kept = make(tmp_path, {"a": [('"a", b', '"a", b')]})
    assert kept == [('"a," b', '"a", b')]
