"""Where sentences end, in which parts a long line is translated, and how these are joined."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from resmlp_mt_runtime import sentences as module
from resmlp_mt_runtime.sentences import by_length, join, sentences, split


@pytest.mark.parametrize(
    "marked",  # a bar where a sentence ends for certain, † where it may, ¶ where a part may
    [
        "I like tea. †Do you? |Yes! |No… †\"Really?\" †(Yes.) †And she said: 'No.' †Well.",
        "Mr. Smith met Dr. J. R. Brown of the U.S. Army, e.g. in Paris. †He left slowly. |Well.",
        "Am 12. Mai kam z. B. Prof. †Ärger nach Abb. 3 dort. †Vgl. Seiten. |„Ja.“ |Nur 2019. †Gut.",
        "The U.K. is near. †Version 3.5 is out. †I ate 1,000.5 kilos. †See a.org/way. †Go.",
        '"Stop!" ¶he said. †What? ¶no... ¶or... †Or. †That is it, says M. Dupont. |« Oui. » †Non.',
        "By Smith et al. †(2010), XIX. Century, Sect. 5, not Chapter. †3 is after the II. War.",
        "Noted.[1] †In <b>bold.</b> |<b>Not</b> **here.** |Nor _so._ |שלום.\u200f |כן. †\u200eYes",
        "Ein Essen inkl. Getränken, approx. 5 (wie? ) kommt. †Ja.",
        "Tea etc., So <i>Yes.</i>, No.</b > |Tea!",
        "<p>So.</p> </qt> |<b>It is. †R&D. Or! |Well.</b></p>",
        "I <3 it. †If n<5. Then x<y. Use a<b> AT&T; ¶<b>it; </b> and <b>好。</b> |是！ </b> |的",
        "Not &amp; this &#38; one; ¶but <a style='x; y' alt='No. No'>z; ¶a < b; ¶c</a>.</b> </p>",
        "Two.[1,2] †Three.[a] †Four.¹ |<p>So.</p>|<w:t>It.</w:t>|Is.<br />|Good.😀 |1 != 2. Or",
        "i like tea. i know. ¶go on. and so on. †So SQL. ¶And uuids.h. ¶And; ¶i say; ¶* So \n ¶On",
        "Он жил на ул. †Ленина. |Да. †डॉ. राम आए. †मु. क. ஸ்டா. †Yes",
        "Ça, dit-il. †Mille. †Code civil. †Le ¶• point 3 ¶▪ le",
        "მე მიყვარს ჩაი. †შენ გიყვარს? |დიახ! |კარგი.",
        "他说：“好。”†“我喜欢茶！”†你呢？|（是。）†很好……是吗。|版本３．５好．|是",
        "「お茶。」†と言った。|好きです！？|はい｡|いいえ。",
        "मैं चाय पीता हूँ। |क्या आप? |हाँ॥ |नहीं",
        "هل تحب الشاي؟ |نعم. †یہ چائے ہے۔ |Բարեւ։ |ሰላም።|እሺ",
        "我来了；¶你呢； ¶好。|بله؛ ¶نه",
        "나는 차를 좋아합니다. †당신은요? |네",
        "ฉันชอบชา คุณล่ะ ใช่",
        "I think . . . ¶no . . . ¶or . . . |Well. †Quoi ? ! |Oui .  . |We take. †.NET. ¶Good . .",
        "...",
        "",
        "  two.  †Spaces. \t |Tab",
    ],
)
def test_sentences_end_where_their_script_says(marked):
    found = re.findall(r"([^¶†|]*)(¶|†|\||\Z)", marked)
    expected = [(text, {"¶": 0, "†": 1}.get(sign, 2)) for text, sign in found]
    assert list(sentences(re.sub("[¶†|]", "", marked))) == expected[: -1 if marked else 1]


def test_a_line_of_any_length_is_read_once():
    """A second look from each point would take an hour."""
    for text in ("J. R. Smith, ", "5. ", ".", "..[1", '.")', ".</b", "．", "« ", "... B"):
        found = list(sentences(text * 100_000))
        assert "".join(text for text, _ in found) == text * 100_000


def by_character(text):
    """As a subword model: one for each character, and one before each word."""
    return [piece for word in text.split() for piece in ("▁", *word)]


PARTS = ["a", "Bc", "d.", "E!", "f。", "g？", "H; ", "Ba. ", "E! ", "Hijklmno", " ", "  "]
TEXT = st.lists(st.sampled_from(PARTS)).map("".join)


@example("E! Ba. Hijklmno", 9, 20)
@given(TEXT, st.integers(2, 15), st.integers(2, 20))
def test_a_long_line_is_divided_at_ends_of_sentences(text, bound, limit):
    """No piece is lost; a part is longer than the bound only if it is one sentence."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BOUND", bound)
        parts, cut = split(text, by_character, limit)
    bound = min(bound, limit)
    assert "".join("".join(part) for part in parts).replace("▁", "") == "".join(text.split())
    assert all(0 < len(part) <= limit for part in parts)
    found = list(sentences(text))
    lengths = [len(by_character(sentence)) for sentence, _ in found]
    whole = len(by_character(text)) <= bound
    assert cut == (not whole and max(lengths) > limit)
    if whole:
        assert parts == ([by_character(text)] if text.strip() else [])
    elif not cut:
        assert all(len(part) <= bound or len(part) in lengths for part in parts)
        assert parts == list(greedily(found, bound))


def greedily(found, bound):
    """The most sentences that fit, up to the last whose end is the surest."""
    while found:
        lengths = [len(by_character(sentence)) for sentence, _ in found]
        fits = [n for n in range(1, len(found) + 1) if sum(lengths[:n]) <= bound] or [1]
        surest = max(found[n - 1][1] for n in fits)
        ends = [n for n in fits if found[n - 1][1] == surest]
        if part := by_character("".join(sentence for sentence, _ in found[: ends[-1]])):
            yield part
        found = found[ends[-1] :]


def test_a_sentence_that_is_too_long_is_cut_where_words_begin():
    found, cut = split("ab cd ef ghijkl mn.", by_character, 7)
    assert cut and list(map("".join, found)) == ["▁ab▁cd", "▁ef", "▁ghijkl", "▁mn."]
    found, cut = split("ab cdefghijk. L", by_character, 5)
    assert cut and list(map("".join, found)) == ["▁ab", "▁cdef", "ghijk", ".", "▁L"]
    han = ["<0xE4>", "<0xBD>", "<0xA0>"]  # a character in bytes stays whole
    assert split("你你你", lambda text: ["▁", *han * 3], 5) == ([["▁", *han], han, han], True)


@given(st.lists(st.integers(1, 9)), st.integers(1, 30), st.booleans())
def test_batches_hold_as_many_tokens_as_they_may(lengths, most, alike):
    batches = list(by_length(lengths, most, alike))
    sizes = [[lengths[i] for i in batch] for batch in batches]
    filled = [i for i, length in enumerate(lengths) if length > 1]
    assert sorted(sum(batches, [])) == filled
    assert sum(sizes, []) == sorted((lengths[i] for i in filled), reverse=True)
    assert all(len(each) == 1 or len(each) * each[0] <= most for each in sizes)
    for each, following in zip(sizes, sizes[1:]):  # which does not fit
        full = (len(each) + 1) * each[0] > most
        assert full or (alike and following[0] < each[0])
    assert not alike or all(len(set(each)) == 1 for each in sizes)


def test_parts_are_joined_as_their_script_does():
    for parts, whole in (
        (["I like tea.", "", "Do you?"], "I like tea. Do you?"),
        (["我喜欢茶。", "你呢？”", "Tom。", "好。"], "我喜欢茶。你呢？”Tom。好。"),
        (["お茶です", "はい。"], "お茶ですはい。"),
        (["나는.", "네."], "나는. 네."),
        (["ฉัน", "คุณ"], "ฉัน คุณ"),
        (["很好……", "是吗——", "Tom"], "很好……是吗—— Tom"),
        (["So…", "他"], "So…他"),
        (["你好!", "“再见”", "👍", "Tom"], "你好!“再见”👍 Tom"),
        (["他来了（2）。", "3月。"], "他来了（2）。3月。"),
        (["", ""], ""),
    ):
        assert join(parts) == whole
