"""Lines in capitals, which are rare in training text: translated in small letters.

"OPEN THE DOOR." is read as "Open the door.", and its translation is written in capitals.
"""

import re
import unicodedata

from resmlp_mt_runtime.languages import two_letters

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")  # not AT&T, CTRL+ALT, MP3


def in_capitals(line: str) -> bool:
    """Whether all letters are capitals, and a word has four: US, WHO and PDF are more often names
    than words."""
    letters = list(filter(str.isalpha, line))
    four = re.search(r"[^\W\d_]{4}", line)
    return bool(four and letters) and all(map(str.isupper, letters))


def small_letters(line: str, engine) -> str:
    """A line in capitals as people would write it in small letters; another line as it is.

    *engine* has ``pieces(text)``, ``rank(piece)``, smaller for more frequent ones, and
    ``languages``."""
    if not in_capitals(line):
        return line
    begins, parts = True, re.split(r"(\s+)", line)
    is_alone = sum(any(map(str.isalpha, part)) for part in parts) == 1
    for number, part in enumerate(parts):
        word = re.sub(r"^\W+|\W+$", "", part)
        if _WORD.fullmatch(word):
            parts[number] = part.replace(word, _usual(word, begins, is_alone, engine), 1)
        if part.rstrip("\"'”’»)]").endswith((".", "!", "?", "…")):
            begins = True
        elif any(map(str.isalpha, part)):
            begins = False
    return "".join(parts)


def _usual(word: str, begins: bool, is_alone: bool, engine) -> str:
    """The form of the fewest pieces; of equals, the small or the capitalized one, of which the more
    frequent pieces decide (London, I). A word of several pieces may be a name or an acronym: it
    stays as it is if it is alone in its line or has up to three letters (USB)."""
    small = lower(word, engine.languages[0])
    title = capitalized(small, engine.languages[0])

    def cost(form: str) -> tuple[int, bool, float]:
        pieces = engine.pieces(form)
        return len(pieces), form not in (small, title), sum(map(engine.rank, pieces))

    best = min(small, title, word, key=cost)
    if cost(best)[0] > 1 and (is_alone or (len(word) <= 3 and word.isalpha())):
        return word
    return title if begins and best == small else best


def capitals_of(line: str, nbest: list, engine) -> list:
    """The translations of a line in capitals with their texts in capitals; of another as they
    are."""
    if not in_capitals(line):
        return nbest
    return [one._replace(text=upper(one.text, engine.languages[1])) for one in nbest]


def lower(text: str, language: str) -> str:
    if two_letters(language) in ("tr", "az"):
        text = text.replace("I", "ı").replace("İ", "i")
    return text.lower()


def capitalized(word: str, language: str) -> str:
    """With a capital: two in Dutch (IJsland); in Greek with its accent."""
    language = two_letters(language)
    letters = 2 if language == "nl" and word.startswith("ij") else 1
    return upper(word[:letters], "" if language == "el" else language) + word[letters:]


def upper(text: str, language: str) -> str:
    """As people write capitals: Greek loses its accents, except in "or"; Georgian has none."""
    language = two_letters(language)
    if language == "ka":
        return text
    if language == "el":
        text = re.sub(r"\b(?![ήΉ]\b)[\u0370-\u03ff]+", lambda word: _without_accents(word[0]), text)
    return (text.replace("i", "İ") if language in ("tr", "az") else text).upper()


def _without_accents(word: str) -> str:
    # a diaeresis keeps apart what the accent kept apart: ρολόι, ΡΟΛΟΪ
    word = re.sub("(?<=[άέό])ι", "ϊ", re.sub("(?<=[άό])υ", "ϋ", word))
    decomposed = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", decomposed.replace("\N{COMBINING ACUTE ACCENT}", ""))
