"""Lines in capitals, which are rare in training text: translated in small letters.

"OPEN THE DOOR." is read as "Open the door.", and its translation is written in capitals.
"""

import re
import unicodedata

from resmlp_mt_runtime.languages import two_letters


def in_capitals(line: str) -> bool:
    """Whether all letters are capitals, and a word has four: US, WHO and PDF are more often names
    than words."""
    letters = filter(str.isalpha, line)
    return bool(re.search(r"[^\W\d_]{4}", line)) and all(map(str.isupper, letters))


def small_letters(line: str, engine) -> str:
    """A line in capitals as people would write it in small letters; another line as it is.

    Of its small, capitalized and given forms, a word gets the one of the fewest pieces, then of the
    most frequent ones: they are the words of the training text, such as London, I, USB. *engine*
    has ``pieces(text)``, ``rank(piece)``, smaller for more frequent ones, and ``languages``."""
    if not in_capitals(line):
        return line

    def cost(word: str) -> tuple[int, float]:
        pieces = engine.pieces(word)
        return len(pieces), sum(map(engine.rank, pieces))

    language, begins, words = engine.languages[0], True, []
    for word in re.split(r"(\s+)", line):
        small = lower(word, language)
        first = next((i for i, c in enumerate(small) if c != c.upper()), len(small))
        title = small[:first] + upper(small[first : first + 1], language) + small[first + 1 :]
        best = min(small, title, word, key=cost) if small != word else word
        words.append(title if begins and best == small else best)
        if any(map(str.isalpha, word)):
            begins = word.rstrip("\"'”’»)]")[-1:] in (".", "!", "?", "…")
    return "".join(words)


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


def upper(text: str, language: str) -> str:
    """As people write capitals: Greek loses its accents, except in "or"; Georgian has none."""
    language = two_letters(language)
    if language == "ka":
        return text
    if language == "el":
        text = re.sub(r"\b(?!ή\b)[\u0370-\u03ff]+", lambda word: _without_accents(word[0]), text)
    return (text.replace("i", "İ") if language in ("tr", "az") else text).upper()


def _without_accents(word: str) -> str:
    # a diaeresis keeps apart what the accent kept apart: ρολόι, ΡΟΛΟΪ
    word = re.sub("(?<=[άέό])ι", "ϊ", re.sub("(?<=[άό])υ", "ϋ", word))
    decomposed = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", decomposed.replace("\N{COMBINING ACUTE ACCENT}", ""))
