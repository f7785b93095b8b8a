"""From raw lines to clean text: what is normalised, left out, found twice and sampled."""

from collections import Counter
from pathlib import Path

import hostile_lines
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prepare_text import pairs_of, read_parallel, write_pairs
from sacremoses import MosesPunctNormalizer

from resmlp_mt.pipeline.prepare.corpora import Cleaner, Corpus, clean
from resmlp_mt.text import TextSettings
from resmlp_mt_runtime.pieces import NFC, normaliser, one_line

MADE_UP = "".join(chr(0xA000 + n) for n in range(9))  # the Yi syllables


@pytest.mark.parametrize(
    "language, text, normal",
    [
        ("en", "“Yes”, he said – it’s 5 %.", '"Yes," he said - it\'s 5%.'),
        ("de", "Er sagte: „Ja.“ Dann ging er.", 'Er sagte: "Ja". Dann ging er.'),
        ("de_AT", "Er sagte: „Ja.“ Dann", 'Er sagte: "Ja". Dann'),
        ("fr", "«\u00a0Oui\u00a0», dit-il\u00a0; et alors\u00a0?", '"Oui", dit-il; et alors?'),
        ("en", "\ufeffsoft\u00adhy\u00adphen \u200eleft", "softhyphen left"),
        ("en", "a\tb\x00c\rd\u2028e\x0bf\x85g\u3000h", "a b c d e f g h"),
        ("fa", "می\u200cخواهم \u200fبروم", "می\u200cخواهم بروم"),
        ("hi", "क्\u200dष \u200d", "क्\u200dष"),
        ("xx", f"{MADE_UP} «{MADE_UP}»", f'{MADE_UP} "{MADE_UP}"'),
    ],
)
def test_normalising_twice_changes_nothing_more(language, text, normal):
    normalise = normaliser(language)
    assert normalise(text) == normal
    assert normalise(normal) == normalise(text + " ") == normalise(text + "\n") == normal


MOSES = {language: MosesPunctNormalizer(language) for language in ("en", "de", "cs", "xx")}
RULES = sorted({pattern for moses in MOSES.values() for pattern, _ in moses.substitutions})
MATCHES = (st.from_regex(rule, fullmatch=True).map("a{}1".format) for rule in RULES)


@given(lines=st.tuples(hostile_lines.lines(), *MATCHES))
def test_punctuation_is_what_sacremoses_makes_of_it(lines):
    for line in lines:
        text = "".join(c for c in line if c.isprintable() or c == "\u00a0").strip()
        for language, moses in MOSES.items():
            assert normaliser(language)(text) == one_line(moses.normalize(text))


def make(tmp_path, parts, normalise=True, drop_duplicates=True):
    """Clean corpora given as lists of pairs; gives the report and the pairs that are kept."""
    train, languages = [], ("en", "de")
    for name, pairs in parts.items():
        prefix = write_pairs(tmp_path / "raw", name, languages, pairs)
        train.append(Corpus(name, *(Path(f"{prefix}.{language}") for language in languages)))
    sizes = [len(pairs) for pairs in parts.values()]
    settings = TextSettings(*languages, normalise, Path(), NFC)
    cleaner = Cleaner(list(map(settings.plain, languages)), skip_invalid=True, max_pieces=250)
    outputs = tuple(tmp_path / f"train.{language}" for language in languages)
    report = clean(train, sizes, cleaner, drop_duplicates, 1, outputs)
    return report, read_parallel(*outputs)


# raw pairs, and what is kept of them or why they are left out
HOSTILE = [
    ((b"lone\rreturn", b"1"), ("lone return", "1")),
    (("line\u2028separator".encode(), b"2"), ("line separator", "2")),
    ((b"nul\x00byte", b"3"), ("nul byte", "3")),
    ((b"\xef\xbb\xbfbyte order mark", b"4"), ("byte order mark", "4")),
    ((b"next\xc2\x85line \x0b\x0c\x1c\x1d\x1e", b"5"), ("next line", "5")),
    ((b"windows\r", b"6\r"), ("windows", "6")),
    ((b"\xff invalid", b"7"), "invalid-utf8"),
    ((b"valid", b"\xc3"), "invalid-utf8"),
    (("replaced \ufffd".encode(), b"9"), "invalid-utf8"),
    ((b"x" * 1_000_000, b"10"), "too-long"),
    ((b"11", b"y " * 500_000), "too-long"),
    ((b"", b"12"), "empty"),
    ((b"13", b" \xc2\xa0\t"), "empty"),
    ((b"\x00", b"15"), "empty"),
    ((b"last", b"16"), ("last", "16")),
]


@pytest.mark.parametrize("normalise", [True, False])
def test_hostile_lines_never_shift_the_sides(tmp_path, normalise):
    report, kept = make(tmp_path, {"a": [raw for raw, _ in HOSTILE]}, normalise=normalise)
    whys = Counter(found for _, found in HOSTILE if isinstance(found, str))
    assert report["a"] == {"read": 15, "kept": 7, **whys}
    # in the middle of a file a byte order mark is text
    kept = [(source.lstrip("" if normalise else "\ufeff"), target) for source, target in kept]
    assert kept == [found for _, found in HOSTILE if isinstance(found, tuple)]


def test_pairs_are_kept_once_over_all_corpora(tmp_path):
    first, second = pairs_of(40, 1), pairs_of(40, 2)
    other = [(second[0][0], second[1][1])]  # neither side is new, the pair is
    same = [(f" {source}", f"{target}\u00ad") for source, target in first[:5]]  # when normalised
    parts = {"a": first + same, "b": second[:10] + first[10:20] + other, "c": second}
    report, kept = make(tmp_path / "1", parts)
    assert kept == first + second[:10] + other + second[10:]
    assert [report[name].get("duplicate") for name in "abc"] == [5, 10, 10]
    assert [report[name]["kept"] for name in "abc"] == [40, 11, 30]
    _, kept = make(tmp_path / "2", parts, drop_duplicates=False)
    assert kept == first + first[:5] + parts["b"] + second
