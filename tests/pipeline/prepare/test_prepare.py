"""``resmlp-mt prepare`` as a user runs it: from text to binary data, resumed, refused."""

import gzip
import itertools
import multiprocessing
import os
import re
import select
import shlex
import shutil
import signal
import time
import unicodedata

import hostile_lines
import pytest
import torch
from command import ran, refused, resmlp, shell
from fairseq.data import Dictionary, data_utils
from fairseq_programs import call
from prepare_text import pairs_of, read_parallel, write_pairs

from resmlp_mt.pipeline.prepare import corpora, encoding
from resmlp_mt.pipeline.prepare import preparation as steps
from resmlp_mt.pipeline.prepare.corpora import find_corpora
from resmlp_mt.pipeline.prepare.pool import in_processes
from resmlp_mt.pipeline.prepare.preparation import PrepareOptions
from resmlp_mt.text import TextSettings
from resmlp_mt_runtime.errors import UserError
from resmlp_mt_runtime.files import read_json, write_json
from resmlp_mt_runtime.pieces import NFC, Subwords

SIDES = ("xa", "xb")


@pytest.fixture
def own(tmp_path):
    """The options of a text of made-up languages, some of it twice or in gzip."""
    folder = tmp_path / "own"
    quoted = [("“ka lo”", "‘mi’ ru")] * 2 + [("ka lo " * 60, "mi"), ("", "mi"), ("漢 ka", "lo 字")]
    texts = {"t": pairs_of(150, 1) + quoted, "v": pairs_of(20, 2) + quoted}
    texts |= {"one": pairs_of(9, 3), "two": pairs_of(8, 4)}
    for name, pairs in texts.items():
        write_pairs(folder, name, SIDES, pairs)
    packed = folder / "two.xa"
    packed.with_name("two.xa.gz").write_bytes(gzip.compress(packed.read_bytes()))
    packed.unlink()
    return [
        *("prepare", "--source-lang", "xa", "--target-lang", "xb", "--trainpref", folder / "t"),
        *("--validpref", folder / "v", "--testpref", f"{folder}/one,{folder}/two"),
        *("--vocab-size", 110, "--workers", 1),
    ]


def data(folder):
    """Every file of the results but the reports."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    other = re.compile("report.json|manifest.json|.lock")
    return {name: path.read_bytes() for name, path in files.items() if not other.search(name)}


def text_of(out, split="train"):
    return read_parallel(*(out / "text" / f"{split}.{side}" for side in SIDES))


def lines_of(data_bin, split, side):
    """What fairseq reads out of the binary data."""
    found = data_utils.load_indexed_dataset(str(data_bin / f"{split}.xa-xb.{side}"))
    dictionary = Dictionary.load(str(data_bin / f"dict.{side}.txt"))
    return [dictionary.string(words, "sentencepiece") for words in found]


def test_text_is_encoded_as_it_stands_and_no_step_is_repeated(tmp_path, own):
    said = ran(*own, "--out", tmp_path / "out", "--max-pieces", 100)
    name = tmp_path / "own" / "t"
    assert f"{name}: 155 pairs read, dropped: 1 empty\n" in said.out
    assert "all: 154 pairs encoded, dropped: 1 too-long\n" in said.out
    assert "train 153, valid 25, test 9, test1 8 pairs, " in said.out
    train = text_of(tmp_path / "out")
    assert train[:152] == [*pairs_of(150, 1), *[("“ka lo”", "‘mi’ ru")] * 2]
    data_bin = tmp_path / "out" / "data-bin"
    assert lines_of(data_bin, "train", "xb")[:152] == [target for _, target in train[:152]]
    assert lines_of(data_bin, "test1", "xa") == [source for source, _ in pairs_of(8, 4)]
    made = {".lock", "data-bin", "manifest.json", "subwords", "text"}
    assert {*os.listdir(tmp_path / "out")} == made
    # nothing is made twice
    before = (data_bin / "spm.model").stat().st_mtime_ns
    assert ran(*own, "--out", tmp_path / "out", "--max-pieces", 100).out == said.out
    assert (data_bin / "spm.model").stat().st_mtime_ns == before


def test_a_corpus_given_twice_is_counted_twice(tmp_path, own):
    """A test set that is another text again is named."""
    other = [(f"{source} 漢字", f"{target} 漢字") for source, target in pairs_of(40, 5)]
    write_pairs(tmp_path / "own", "z", SIDES, other)
    for place, names in ((6, "ttz"), (10, ("t", "one", "v"))):
        own[place] = ",".join(str(tmp_path / "own" / name) for name in names)
    said = ran(*own, "--out", tmp_path / "out", "--max-pieces", 100)
    assert f"train {2 * 153 + 40}, valid" in said.out and "t (again): 155 pairs read" in said.out
    same = re.findall("warning: (.*)", said.out)
    assert same == ["test is the same text as train", "test2 is the same text as valid"]
    assert "漢" in (tmp_path / "out" / "data-bin" / "dict.xa.txt").read_text(encoding="utf-8")
    said = ran(*own, "--out", tmp_path / "once", "--limit", 30, "--drop-duplicates")
    assert "t (again): 30 pairs read, dropped: 30 duplicate" in said.out
    assert "train 60, valid 25" in said.out


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


def test_hostile_lines_never_shift_the_sides(tmp_path, own):
    write_pairs(tmp_path / "own", "t", SIDES, [raw for raw, _ in HOSTILE])
    words = own[: own.index("--vocab-size")]
    said = ran(*words, "--skip-invalid", "--workers", 1, "--out", tmp_path / "out").out
    assert "t: 17 pairs read, dropped: 5 invalid-utf8, 3 empty, 2 too-long\nall: 7 pairs" in said
    assert text_of(tmp_path / "out") == [found for _, found in HOSTILE if isinstance(found, tuple)]


def test_pairs_are_kept_once_over_all_corpora(tmp_path, own):
    first, second = pairs_of(40, 1), pairs_of(40, 2)
    other = [(second[0][0], second[1][1])]  # neither side is new, the pair is
    same = [(f" {source}", f"{target}\u0085") for source, target in first[:5]]  # when plain
    parts = {"a": first + same, "b": second[:10] + first[10:20] + other, "c": second}
    own[6] = ",".join(str(write_pairs(tmp_path, name, SIDES, parts[name])) for name in parts)
    said = ran(*own, "--drop-duplicates", "--out", tmp_path / "out").out
    assert text_of(tmp_path / "out") == first + second[:10] + other + second[10:]
    counted = re.findall(r"/(\w): (\d+) pairs read, dropped: (\d+) duplicate\n", said)
    assert counted == [("a", "45", "5"), ("b", "21", "10"), ("c", "40", "10")]


def test_subwords_are_learnt_from_a_sample(tmp_path, own, monkeypatch):
    monkeypatch.setattr(encoding, "SAMPLE", 1)
    own[own.index("--vocab-size") + 1] = 40
    ran(*own, "--out", tmp_path / "out")
    pieces = Subwords(tmp_path / "out" / "data-bin" / "spm.model").pieces
    known = set("".join(piece for piece in pieces if " " not in piece))  # as of unused characters
    text = (tmp_path / "out" / "text" / "train.xa").read_text("utf-8")
    assert known - {*text} < {*"▁<unk>"} and len(known) < len({*text}) * 0.8
    ran(*own, "--out", tmp_path / "again")
    assert data(tmp_path / "again") == data(tmp_path / "out")


def test_unknown_tokens_are_counted(tmp_path, own):
    """As fairseq reads them. SentencePiece never learns the sign in train.xb."""
    pairs = [*pairs_of(150, 1), ("ka lo", "mi \N{LOWER FIVE EIGHTHS BLOCK} ka")]
    write_pairs(tmp_path / "own", "t", SIDES, pairs)
    said = ran(*own, "--out", tmp_path / "out").out
    notes = []
    for name in ("train.xa", "valid.xa", "test.xa", "test1.xa", "train.xb", "valid.xb"):
        split, side = name.split(".")
        found = data_utils.load_indexed_dataset(f"{tmp_path}/out/data-bin/{split}.xa-xb.{side}")
        tokens = torch.cat(list(found))
        if unknown := (tokens == 3).sum():
            notes.append(f"{name}: {unknown} of {len(tokens):,} tokens are unknown")
    assert re.findall("note: (.*)", said) == notes
    assert {note.split(":")[0] for note in notes} == {"train.xb", "valid.xa", "valid.xb"}


def test_new_words_are_cut_into_pieces_of_the_training_text(tmp_path, own):
    """Not into intermediate merges, into which none of its words is cut."""
    text, folder = "tomato toma tomatoesato", tmp_path / "out" / "data-bin"
    write_pairs(tmp_path / "own", "t", SIDES, [("tomatoes", "lo")] * 9 + [("otmesaet", "ol")])
    write_pairs(tmp_path / "own", "v", SIDES, [(text, "lo")])
    own[own.index("--vocab-size") + 1] = 17
    ran(*own, "--out", tmp_path / "out")
    types = {*Dictionary.load(str(folder / "dict.xa.txt")).symbols}
    learnt, stored = (
        Subwords(path / "spm.model", NFC) for path in (folder.parent / "subwords", folder)
    )
    assert not types > {*learnt.encode(text)} and types > {*stored.encode(text)}
    assert lines_of(folder, "valid", "xa") == [text]
    # likewise by the dictionary of older data, whose model still has all pieces
    older = shutil.copy(folder.parent / "subwords" / "spm.model", folder)
    write_pairs(tmp_path / "own", "t", SIDES, [(text, "lo")])
    own[own.index("--vocab-size") :] = ["--subword-model", older, "--out", tmp_path / "again"]
    ran(*own)
    assert lines_of(tmp_path / "again" / "data-bin", "train", "xa") == [text]


def test_text_is_filtered_only_if_asked(tmp_path, own):
    """A pair of exactly the ratio stays."""
    for side, line in zip(SIDES, ("mi", "mi mi")):
        with open(tmp_path / "own" / f"t.{side}", "a") as file:
            file.write(f"{line}\n")
    options = ("--drop-duplicates", "--max-ratio", 2)
    said = ran(*own, *options, "--out", tmp_path / "out")
    assert "156 pairs read, dropped: 1 empty, 1 duplicate\n" in said.out
    assert "all: 154 pairs encoded, dropped: 1 length-ratio\n" in said.out


@pytest.mark.parametrize("name, lines", [("t.xb", 80), ("t.xa", 155), ("one.xa", 3), ("v.xa", 24)])
def test_a_text_that_is_changed_while_it_is_read_is_refused(tmp_path, own, name, lines):
    """In length, or only in what it says."""
    path = tmp_path / "own" / name
    options = {"source_lang": "xa", "target_lang": "xb", "vocab_size": 110}
    texts = find_corpora(SIDES, *map(str, (own[6], own[8], own[10])))
    work = steps.Preparation(texts, PrepareOptions(**options), tmp_path / "out", workers=2)
    assert work.identity
    path.write_bytes(b"".join(path.read_bytes().splitlines(True)[:lines][::-1]))
    os.utime(path, ns=(1, 1))  # however coarse the clock is
    with pytest.raises(UserError, match=f"^{path} changed while being read: run the command again"):
        work.run()
    assert {*os.listdir(tmp_path / "out")} == {".lock", "manifest.json"}


def test_names_of_folders_that_no_encoding_has(tmp_path, own):
    """Neither UTF-8 nor the encoding of the terminal."""
    folder = tmp_path / os.fsdecode("dü r\xe4".encode("latin-1")) / "ü"
    shutil.copytree(tmp_path / "own", folder)
    words = [str(word).replace(str(tmp_path / "own"), str(folder)) for word in own]
    said = shell(f"resmlp-mt {shlex.join(words)} --out out", folder, PYTHONIOENCODING="ascii")
    assert said.returncode == 0 and "Traceback" not in said.stderr, said.stderr
    assert said.stdout.isascii()
    assert lines_of(folder / "out" / "data-bin", "valid", "xa")[0] == pairs_of(20, 2)[0][0]
    assert Subwords(folder / "out" / "subwords" / "spm.model", NFC).encode("ka lo")


def test_the_subwords_of_other_data_bring_their_dictionary(tmp_path, own):
    """A model of the first data reads the second: each number is the same word."""
    ran(*own, "--out", tmp_path / "first")
    first = tmp_path / "first" / "data-bin"
    write_pairs(tmp_path, "few", SIDES, pairs_of(150, 1)[:9] * 40)
    again = [*own[:6], tmp_path / "few", *own[7:11]]
    alone, found = shutil.copy(first / "spm.model", tmp_path), {}
    for name, model in (("kept", first / "spm.model"), ("new", alone)):
        out = tmp_path / name
        ran(*again, "--workers", 1, "--subword-model", model, "--out", out)
        found[name] = (out / "data-bin" / "dict.xa.txt").read_bytes()
        trained_on = lines_of(out / "data-bin", "train", "xa")
        assert trained_on[:9] == lines_of(first, "train", "xa")[:9]
    assert found["kept"] == (first / "dict.xa.txt").read_bytes() != found["new"]
    refused("made with vocab_size = null, not 110", *own, "--out", out)
    write_pairs(tmp_path, "few", ("xb", "xc"), pairs_of(9, 1) * 40)  # of another pair
    pair = ("prepare", "-s", "xb", "-t", "xc", "--workers", 1, "--out", tmp_path / "pair")
    texts = ("--trainpref", tmp_path / "few", "--validpref", tmp_path / "few")
    ran(*pair, *texts, "--subword-model", first / "spm.model")
    assert (tmp_path / "pair/data-bin/dict.xc.txt").read_bytes() == found["kept"]


def test_data_are_the_same_from_any_number_of_workers(tmp_path, own, monkeypatch):
    ran(*own, "--out", tmp_path / "1")
    monkeypatch.setattr(corpora, "CHUNK_LINES", 20)
    monkeypatch.setattr(encoding, "BUFFER", 64)
    ran(*own, "--workers", 3, "--out", tmp_path / "3")
    assert data(tmp_path / "1") == data(tmp_path / "3")


# held-out lines of known and unknown characters; where they spell a symbol such as </s>, fairseq
# takes them for it, and we do not
ODD = [line for line in hostile_lines.FIXED if not any(x in line for x in hostile_lines.SPECIAL)]
ODD += ["漢字", "KA 漢 LO", "KA " * 9999]


@pytest.mark.parametrize("case", ["new", "bytes", "given"])
def test_data_are_byte_equal_to_those_of_fairseq_preprocess(tmp_path, own, case):
    """Of our pieces as text. It counts unknown characters as types, we do not."""
    upper = [tuple(map(str.upper, pair)) for pair in pairs_of(150, 1)]  # none of fairseq's words
    write_pairs(tmp_path / "own", "t", SIDES, upper + [("KA " * 250, "LO"), ("KA " * 251, "LO")])
    write_pairs(tmp_path / "own", "v", SIDES, [(line, f"{line} MI") for line in ODD])
    if case == "bytes":
        own += ["--vocab-size", 320, "--character-coverage", 0.999]
    if case == "given":
        ran(*own, "--out", tmp_path / "first")
        size = own.index("--vocab-size")
        own[size : size + 2] = ["--subword-model", tmp_path / "first" / "data-bin" / "spm.model"]
    out, its = tmp_path / "out", tmp_path / "its"
    ran(*own, "--out", out)
    types = (out / "data-bin" / "dict.xa.txt").read_text("utf-8")
    assert types.count("<0x") == (256 if case == "bytes" else 0)
    its.mkdir()
    subwords = Subwords(out / "data-bin" / "spm.model", NFC)
    for split in ("train", "valid", "test", "test1"):
        pairs = text_of(out, split)
        pieces = [tuple(" ".join(subwords.encode(side)) for side in pair) for pair in pairs]
        if split == "train":
            pieces = [pair for pair in pieces if max(len(side.split()) for side in pair) <= 250]
            assert len(pairs) - len(pieces) == 1
        write_pairs(its, split, SIDES, pieces)
    words = ["-s", "xa", "-t", "xb", "--joined-dictionary", "--trainpref", its / "train"]
    words += ["--validpref", its / "valid", "--testpref", f"{its / 'test'},{its / 'test1'}"]
    if case != "new":
        words += ["--srcdict", out / "data-bin" / "dict.xa.txt"]
    call("preprocess", *words, "--destdir", its / "bin")
    made, expected = data(out / "data-bin"), data(its / "bin")
    both = made.keys() & expected.keys()
    assert len(both) == 2 + 4 * 2 * 2 and all(made[name] == expected[name] for name in both)


def test_the_default_vocabulary_shrinks_with_the_text(tmp_path, own):
    none = own[: own.index("--vocab-size")]
    found = resmlp(*none, "--max-pieces", 1, "--out", tmp_path / "default")
    assert found.status == 1 and "error: no training pair is left (" in found.err
    found = ran(*none, "--out", tmp_path / "default")
    most = re.search("note: only (.+) subwords, because the text is small", found.err)[1]
    model = Subwords(tmp_path / "default" / "data-bin" / "spm.model")
    assert model.processor.get_piece_size() == int(most) > 110


def test_no_character_of_the_training_text_is_unknown(tmp_path):
    """Neither one that has a subword but stands only in longer ones, as do most in Chinese."""
    words = ["選擇", "選擇工具", "添加", "添加工具", "工具"] * 40
    for name in ("t", "v"):
        write_pairs(tmp_path, name, ("en", "zh"), [(f"w{i % 7}", w) for i, w in enumerate(words)])
    text = ("--trainpref", tmp_path / "t", "--validpref", tmp_path / "v", "--vocab-size", 280)
    ran("prepare", "-s", "en", "-t", "zh", *text, "--out", tmp_path / "out")
    folder = tmp_path / "out" / "data-bin"
    subwords = Subwords(folder / "spm.model", NFC)
    known = {line.split()[0] for line in (folder / "dict.zh.txt").read_text("utf-8").splitlines()}
    assert "擇" not in known
    for character in {*"".join(words)}:
        pieces = subwords.encode(character)
        assert {*pieces} <= known
        assert subwords.processor.decode(pieces) == character


def test_new_words_are_spelled_however_small_the_text(tmp_path):
    """Were all of its words subwords, most of the others would be unknown."""
    words = ["".join(letters) for letters in itertools.permutations("abcdefgh", 4)]
    for name, some in (("t", slice(0, 1600, 4)), ("v", slice(1, 1600, 9))):
        write_pairs(tmp_path, name, ("en", "de"), [(w, w) for w in words[some]])
    text = ("--trainpref", tmp_path / "t", "--validpref", tmp_path / "v")
    for more in ((), ("--character-coverage", 0.9995)):
        out = tmp_path / f"out{len(more)}"
        said = ran("prepare", "-s", "en", "-t", "de", *text, "--out", out, *more).out
        for unknown, tokens in re.findall(r"(\S+) of (\S+) tokens are unknown", said):
            assert int(unknown) < int(tokens) / 20
    assert encoding.fitting(["a bc", "cd a e", "f"], 9) == len("▁abcdef") + 2
    assert encoding.fitting(iter(["a b", "c d e", 1 / 2]), 3) == len("▁abcde") + 2


def test_damaged_and_uneven_files_are_refused(tmp_path, own):
    """Invalid UTF-8 in the held-out text also with --skip-invalid. Nothing is written before."""
    folder, out = tmp_path / "own", tmp_path / "out"
    whole = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name, content, said, *more in (
        ("t.xb", b"x\n" * 4, "t.xa has 155 lines but"),
        ("v.xa", b"", "v.xa: empty file"),
        ("two.xa.gz", whole["two.xa.gz"][:-9] + bytes(9), "two.xa.gz: damaged gzip"),
        ("t.xb", b"\xff" + whole["t.xb"], "t.xb, line 1: invalid UTF-8"),
        ("v.xb", b"\xff" + whole["v.xb"], "v.xb, line 1: invalid UTF-8", "--skip-invalid"),
        ("t.xb", whole["t.xb"], "set it to a value <=", "--vocab-size", 5000),  # in a process
        ("t.xb", b"\n" * 155, "t: 155 pairs read, dropped: 155 empty"),
    ):
        (folder / name).write_bytes(content)
        refused(said, *own, *more, "--out", out)
        assert out.exists() == said.startswith(("set it", "t: "))
        (folder / name).write_bytes(whole[name])


def test_languages_choose_the_coverage():
    found = [PrepareOptions(source, "en").coverage for source in ("de", "zh", "ja", "zh_CN", "zha")]
    assert found == [1, 0.9995, 0.9995, 0.9995, 1]
    assert PrepareOptions("zh", "en", character_coverage=0.99).coverage == 0.99
    assert PrepareOptions("en", "de", augment=True).coverage == 0.9995


SCRIPTS = {
    "zh": "他说：“我喜欢茶，你呢？”（是！）１２３；《红楼梦》……",
    "fa": "می‌خواهم کتاب‌هایم را بخوانم؛ آیا می‌شود؟",
    "vi": unicodedata.normalize("NFD", "Tôi muốn uống trà nóng ở Hà Nội."),
    "th": "ฉันชอบดื่มชาร้อน ๆ ที่กรุงเทพฯ",
    "hi": "मैं चाय पीना चाहता हूँ। क्‍या आप क़लम लाए?",
    "ar": "هل تحبّ الشاي؟ ﷺ نعم، ٣٫٥ كوب.",
    "ja": "「お茶が好きです。」ｶﾌｪ㈱で１０㌔、葛󠄀城市",
    "ko": "나는 차를 좋아합니다. 각",
    "ka": "მე მიყვარს ჩაი, „კი“.",
    "de": "Über ½ l Tee … 10⁶ m² kosten „3,50 €“, ﬁnde ich™.",
    "fr": "« L’œuvre » coûte 3 € ; n’est-ce pas ?",
    "emoji": "I ❤️ you 👨‍👩‍👧‍👦 🏳️‍🌈 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ☀️ 1️⃣ 👍🏽",
    "marks": "co\u00adop \u200b \u2060 \u202eabc\u202c \u200f %s {name} <b>fett</b> <0xE2> ﬀ ﷼",
}


def test_a_perfect_model_writes_the_references(tmp_path):
    """In any script: text to pieces and back changes nothing but NFC, white space, and signs that
    nobody sees."""
    pairs = [(f"KA {number}", line) for number, line in enumerate(SCRIPTS.values())]
    write_pairs(tmp_path, "t", SIDES, pairs * 9)
    text = ("--trainpref", tmp_path / "t", "--validpref", tmp_path / "t", "--workers", 1)
    ran("prepare", "-s", "xa", "-t", "xb", *text, "--out", tmp_path / "out")
    references = (tmp_path / "out/text/valid.xb").read_text("utf-8").splitlines()[: len(pairs)]
    assert references == [unicodedata.normalize("NFC", line) for line in SCRIPTS.values()]
    perfect = lines_of(tmp_path / "out/data-bin", "valid", "xb")[: len(pairs)]
    seen = (re.sub("[\u00ad\u2060]", "", line) for line in references)
    assert perfect == [" ".join(line.split()) for line in seen]


def test_data_keep_the_rule_of_their_subwords(tmp_path, own):
    """Those made before there was a rule keep SentencePiece's own, and are continued by it. So are
    those whose subwords are not ours."""
    ran(*own, "--out", tmp_path / "new")
    kept = own[: own.index("--vocab-size")]
    kept += ("--subword-model", tmp_path / "new/data-bin/spm.model")
    stored = tmp_path / "new/data-bin/text.json"

    def made(name):
        for _ in range(2):
            ran(*kept, "--out", tmp_path / name)
        return TextSettings.load(tmp_path / name / "data-bin")

    assert made("again").rule == NFC
    manifest = tmp_path / "again" / "manifest.json"
    written = read_json(manifest)
    write_json(manifest, {"gone": False, **written})  # an option of before
    assert made("again").rule == NFC and read_json(manifest) == written
    write_json(manifest, {"gone": True, **written})
    refused("made with gone = true, not null", *kept, "--out", tmp_path / "again")
    foreign = shutil.copy(kept[-1], tmp_path / "foreign.model")
    ran(*kept[:-1], foreign, "--out", tmp_path / "foreign")
    assert TextSettings.load(tmp_path / "foreign/data-bin").rule is None
    stored.write_text(stored.read_text().replace('"nfc"', "null"))
    assert made("old").rule is None
    refused("holds results made with rule", *own, "--out", tmp_path / "new")
    stored.write_text(stored.read_text().replace("null", '"nfd"'))
    refused("its rule 'nfd' is not known", *kept, "--out", tmp_path / "other")


def die(item):
    if item == 5:
        os.kill(os.getpid(), signal.SIGKILL)


def million_bytes(item):
    return bytes(10**6)  # more than a pipe holds: the worker waits until they are read


@pytest.mark.parametrize("work", [die, million_bytes], ids=["works", "waits"])
def test_a_killed_worker_is_noticed(work):
    with pytest.raises(UserError, match="a worker process was killed"):
        for _ in in_processes(2, work, range(20)):
            time.sleep(0.1)
            if work is million_bytes:
                multiprocessing.active_children()[0].kill()
    assert not multiprocessing.active_children()


def test_no_worker_outlives_a_parent_that_is_killed():
    ended, held = os.pipe()  # the processes hold the other end

    def parent():
        for _ in in_processes(2, million_bytes, range(9)):
            os.write(held, b"begun")
            time.sleep(60)  # the workers wait to send what is next

    process = multiprocessing.get_context("fork").Process(target=parent)
    process.start()
    os.close(held)
    assert os.read(ended, 5) == b"begun"
    process.kill()
    process.join()
    assert select.select([ended], [], [], 30)[0] and not os.read(ended, 1)
