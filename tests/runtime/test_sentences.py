"""Where sentences end, in which parts a long line is translated, and how these are joined."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resmlp_mt_runtime import sentences as module
from resmlp_mt_runtime.sentences import join, sentences, split


@pytest.mark.parametrize(
    "marked",  # a bar where a sentence ends
    [
        "I like tea. |Do you? |Yes! |No… |\"Really?\" |(Yes.) |And she said: 'No.' |Well.",
        "Mr. Smith met Dr. J. R. Brown of the U.S. Army, e.g. in No. 5, St. Louis. |He left.",
        "Am 3. Mai kam z. B. Prof. Ärger usw. nach St. Gallen. |Vgl. Abb. 3 dort. |„Ja.“ |2019.",
        "The U.K. is far. |Version 3.5 is out. |I ate 1,000.5 kilos. |See a.org/way. |Go.",
        '"Stop!" he said. |What? no… or so. |That is it, says M. Dupont. |« Oui. » |Non.',
        "他说：“好。”|“我喜欢茶！”|你呢？|（是。）|很好……是吗。|版本３．５好．|是",
        "「お茶。」|好きです！？|はい｡|いいえ。",
        "मैं चाय पीता हूँ। |क्या आप? |हाँ॥ |नहीं",
        "هل تحب الشاي؟ |نعم. |یہ چائے ہے۔ |Բարեւ։ |ሰላም።|እሺ",
        "나는 차를 좋아합니다. |당신은요? |네",
        "ฉันชอบชา คุณล่ะ ใช่",
        "...",
        "",
        "  two.  |Spaces. \t |Tab",
    ],
)
def test_sentences_end_where_their_script_says(marked):
    assert list(sentences(marked.replace("|", ""))) == marked.split("|")


def by_character(text):
    """As a subword model: one for each character, and one before each word."""
    return [piece for word in text.split() for piece in ("▁", *word)]


TEXT = st.lists(st.sampled_from(["a", "Bc", "d.", "E!", "f。", "g？", "Hijklmno", " ", "  "]))


@given(TEXT.map("".join), st.integers(2, 9), st.integers(2, 12))
def test_a_long_line_is_divided_at_ends_of_sentences(text, bound, limit):
    """No piece is lost; a part is longer than the bound only if it is one sentence."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BOUND", bound)
        parts, cut = split(text, by_character, limit)
    bound = min(bound, limit)
    assert "".join("".join(part) for part in parts).replace("▁", "") == "".join(text.split())
    assert all(0 < len(part) <= limit for part in parts)
    lengths = [len(by_character(sentence)) for sentence in sentences(text)]
    whole = len(by_character(text)) <= bound
    assert cut == (not whole and max(lengths) > limit)
    if whole:
        assert parts == ([by_character(text)] if text.strip() else [])
    elif not cut:
        assert all(len(part) <= bound or len(part) in lengths for part in parts)
        ends = list(map("".join, map(by_character, sentences(text))))
        assert all("".join(part).endswith(tuple(filter(None, ends))) for part in parts)
        assert all(
            len(first) + len(by_character(next(sentences("".join(second).replace("▁", " ")))))
            > bound
            for first, second in zip(parts, parts[1:])
        )


def test_a_sentence_that_is_too_long_is_cut_where_words_begin():
    found, cut = split("ab cd ef ghijkl mn.", by_character, 7)
    assert cut and list(map("".join, found)) == ["▁ab▁cd", "▁ef", "▁ghijkl", "▁mn."]
    found, cut = split("ab cdefghijk. L", by_character, 5)
    assert cut and list(map("".join, found)) == ["▁ab", "▁cdef", "ghijk", ".", "▁L"]


@pytest.mark.parametrize(
    "parts, whole",
    [
        (["I like tea.", "", "Do you?"], "I like tea. Do you?"),
        (["我喜欢茶。", "你呢？”", "Tom。", "好。"], "我喜欢茶。你呢？”Tom。好。"),
        (["お茶です", "はい。"], "お茶ですはい。"),
        (["나는.", "네."], "나는. 네."),
        (["ฉัน", "คุณ"], "ฉัน คุณ"),
        (["", ""], ""),
    ],
)
def test_parts_are_joined_as_their_script_does(parts, whole):
    assert join(parts) == whole
