"""Lines of text that break programs: fixed ones, and Hypothesis' mixtures of their pieces."""

from hypothesis import strategies as st

# Python's line breaks but the line feed, to which a carriage return before it belongs
BREAKS = ["\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
SPECIAL = ["<s>", "</s>", "<unk>", "<pad>", "<mask>", "madeupword0000"]
SYMBOLS = ["▁", "▁▁", "w01▁w02", "▅", "@@", "@@ ", "@-@", "##AT##", "\ufffd", "⁇"]
OUTPUT = ["H-0\t-0.1\ttext", "S-1", "D-0\t-0.5\tw01", "P-7\t-0.5 -0.1", "T-0\tw02"]
OUTPUT += ["INFO | Translated 1 sentences (9 tokens)", "Generate test with beam=4: BLEU4 = 0.00"]
OUTPUT += ["madeupword0000 3", "w01 #fairseq:overwrite"]
MARKS = list("\ufeff\u202e\u200f\u200b\u200d\u00ad\u2060\u061c\U000e0001\ue000\uffff\U0010ffff")
SPACES = ["\t", " ", "  ", "\u00a0", "\u3000", "\u2003", "\u1680", "\u202f", "\u180e"]
LETTERS = [
    *("שלום עולם", "مرحبا بالعالم", "नमस्ते", "ﷺ", "ǅ", "ﬁ", "１２", "½", "İstanbul", "ß"),
    *("👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "e\u0301", "한국어", "漢字", "z" + "\u0301\u0316\u0488" * 40),
]
PUNCTUATION = list("\"'`“”„‚‘’«»‹›…–—−%&<>|[]{}()\\$^*+?.,;:!#~=") + ["&lt;", "&amp;#10;", "\\n"]
CONTROL = ["\0", "\x01", "\x07", "\x08", "\x1b[31m", "\x7f", "\x80", "\x9f"]
WORDS = ["w01", "w02 w03", "W01", "12-34", "a", "naïve"]
PIECES = BREAKS + SPECIAL + SYMBOLS + OUTPUT + MARKS + SPACES
PIECES += LETTERS + PUNCTUATION + CONTROL + WORDS
# a line each; none of them too long for 32 positions, for those programs that refuse such
FIXED = ["", " ", "\t\u00a0\u3000", "w01 w02", "\0", "\ufeff", "\ufeffw01"]
FIXED += [f"w01{character}w02" for character in (*BREAKS, *CONTROL, *MARKS, *SPACES)]
FIXED += [f"{character}w01 w02{character}" for character in (*BREAKS, *MARKS)]
FIXED += [*BREAKS[1:], *SPECIAL, *SYMBOLS, *OUTPUT, *LETTERS, *(f"a{name}b" for name in SPECIAL)]
FIXED += [" ".join(SPECIAL), "w01 \u202ew02\u202c w03", "w" + "\u0301" * 300]

# a stray byte, a cut-off character, an overlong form, a surrogate, past the last character
NOT_UTF8 = [b"\xff", b"w01 \xe2\x80", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
NOT_UTF8 += ["für".encode("latin-1"), "w01".encode("utf-16")]


def lines() -> st.SearchStrategy[str]:
    """A line without a line feed: pieces from above and any characters that UTF-8 has."""
    any_text = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=12)
    return st.lists(st.sampled_from(PIECES) | any_text, max_size=8).map("".join)


def files() -> st.SearchStrategy[bytes]:
    """A file: lines with either line end, some no UTF-8, with and without a last line end."""
    line = lines().map(str.encode) | st.sampled_from(NOT_UTF8)
    ended = st.tuples(line, st.sampled_from([b"\n", b"\n", b"\r\n", b"\r\r\n"])).map(b"".join)
    whole = st.lists(ended, max_size=8).map(b"".join)
    return st.tuples(whole, st.just(b"") | line).map(b"".join)
