"""From raw lines to clean text: what is made plain, left out, found twice."""

from collections import Counter
from pathlib import Path

from prepare_text import pairs_of, read_parallel, write_pairs

from resmlp_mt.pipeline.prepare.corpora import Cleaner, Corpus, clean
from resmlp_mt_runtime.pieces import nfc


def make(tmp_path, parts):
    """Clean corpora given as lists of pairs; gives the report and the pairs that are kept."""
    train, languages = [], ("en", "de")
    for name, pairs in parts.items():
        prefix = write_pairs(tmp_path / "raw", name, languages, pairs)
        train.append(Corpus(name, *(Path(f"{prefix}.{language}") for language in languages)))
    sizes = [len(pairs) for pairs in parts.values()]
    cleaner = Cleaner(nfc, skip_invalid=True, max_pieces=250)
    outputs = tuple(tmp_path / f"train.{language}" for language in languages)
    report = clean(train, sizes, cleaner, True, 1, outputs)
    return report, read_parallel(*outputs)


# raw pairs, and what is kept of them or why they are left out
HOSTILE = [
    ((b"lone\rreturn", b"1"), ("lone return", "1")),
    (("line\u2028separator".encode(), b"2"), ("line separator", "2")),
    ((b"nul\x00byte", b"3"), ("nul byte", "3")),
    # between files that were joined
    ((b"\xef\xbb\xbfbyte order mark", b"4"), ("byte order mark", "4")),
    ((b"next\xc2\x85line \x0b\x0c\x1c\x1d\x1e", b"5"), ("next line", "5")),
    ((b"windows\r", b"6\r"), ("windows", "6")),
    ((b"\xff invalid", b"7"), "invalid-utf8"),
    ((b"valid", b"\xc3"), "invalid-utf8"),
    (("replaced \ufffd".encode(), b"9"), "invalid-utf8"),
    (("utf-16".encode("utf-16-be"), b"9"), "invalid-utf8"),
    ((b"9", "abc".encode("utf-16-le")), "invalid-utf8"),
    ((b"x" * 1_000_000, b"10"), "too-long"),
    ((b"11", b"y " * 500_000), "too-long"),
    ((b"", b"12"), "empty"),
    ((b"13", b" \xc2\xa0\t"), "empty"),
    ((b"\x00", b"15"), "empty"),
    ((b"last", b"16"), ("last", "16")),
]


def test_hostile_lines_never_shift_the_sides(tmp_path):
    report, kept = make(tmp_path, {"a": [raw for raw, _ in HOSTILE]})
    whys = Counter(found for _, found in HOSTILE if isinstance(found, str))
    assert report["a"] == {"read": 17, "kept": 7, **whys}
    assert kept == [found for _, found in HOSTILE if isinstance(found, tuple)]


def test_pairs_are_kept_once_over_all_corpora(tmp_path):
    first, second = pairs_of(40, 1), pairs_of(40, 2)
    other = [(second[0][0], second[1][1])]  # neither side is new, the pair is
    same = [(f" {source}", f"{target}\u0085") for source, target in first[:5]]  # when plain
    parts = {"a": first + same, "b": second[:10] + first[10:20] + other, "c": second}
    report, kept = make(tmp_path, parts)
    assert kept == first + second[:10] + other + second[10:]
    assert [report[name].get("duplicate") for name in "abc"] == [5, 10, 10]
    assert [report[name]["kept"] for name in "abc"] == [40, 11, 30]
