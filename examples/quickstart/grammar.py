"""Sentences of a small grammar, English and German, each with one right translation.

To translate them one must learn agreement in number, gender and case, separable verbs, the verb at
the end of subordinate clauses, and the inversion after a fronted adverb.
"""

import random
from pathlib import Path
from typing import NamedTuple

TENSES = ("present", "past", "perfect", "modal")
KINDS = ("simple", "fronted", "relative", "conjunction last", "conjunction first")
# German endings and articles by gender (p: plural), for nominative, accusative and dative
ENDINGS = {"m": "er en em", "f": "e e er", "n": "es es em", "p": "e e en"}
ARTICLES = {"m": "der den dem", "f": "die die der", "n": "das das dem", "p": "die die den"}
NOMINATIVE, ACCUSATIVE, DATIVE = CASES = range(3)


def read_words() -> dict[str, list[list[str]]]:
    """The groups of words.txt: below the name of each, one word per line."""
    groups = {}
    for block in Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split("\n\n"):
        name, *lines = [line for line in block.splitlines() if not line.startswith("#")]
        groups[name] = [line.split() for line in lines]
    return groups


WORDS = read_words()


class Phrase(NamedTuple):
    en: str
    de: list[str]  # by case
    plural: bool
    pronoun: str  # German, of a relative clause


class Clause(NamedTuple):
    en: str
    second: str  # German with its verb second
    inverted: str  # the verb before the subject
    last: str  # the verb at the end


def join(*words: str) -> str:
    return " ".join(word for word in words if word)


def phrase(rng: random.Random, group: str) -> Phrase:
    """A determiner, an adjective half the time, and a noun."""
    one, many, stem = rng.choice(WORDS["determiners"])
    en, en_plural, gender, noun, noun_plural = rng.choice(WORDS[group])
    adjective, de_adjective = rng.choice(WORDS["adjectives"]) if rng.random() < 0.5 else ("", "")
    plural = many != "-" and rng.random() < 0.4
    gender = "p" if plural else gender
    german = []
    for case in CASES:
        strong, article = ENDINGS[gender].split()[case], ARTICLES[gender].split()[case]
        bare_cases = [("m", NOMINATIVE), ("n", NOMINATIVE), ("n", ACCUSATIVE)]
        bare = stem.endswith("ein") and (gender, case) in bare_cases  # "ein Kind"
        direct = case == NOMINATIVE or (case == ACCUSATIVE and gender in "fn")
        if stem == "d":
            determiner = article
        else:
            determiner = stem if bare else stem + strong
        if bare:
            ending = strong
        else:
            ending = "e" if direct and not plural else "en"
        word = noun_plural if plural else noun
        if plural and case == DATIVE and word[-1] not in "ns":
            word += "n"
        german.append(join(determiner, de_adjective + ending if de_adjective else "", word))
    english = join(adjective, en_plural if plural else en)
    determiner = many if plural else "an" if one == "a" and english[0] in "aeiou" else one
    return Phrase(f"{determiner} {english}", german, plural, ARTICLES[gender].split()[NOMINATIVE])


def clause(rng: random.Random, tense: str, subject: Phrase, adverb=("", "")) -> Clause:
    """What *subject* does: a verb, its object and a place."""
    group = rng.choice(["verbs", "verbs persons", "verbs things"])
    target = phrase(rng, group.split()[1]) if " " in group else Phrase("", [""] * 3, False, "")
    en, en_he, en_past, en_done, de, de_er, de_past, de_done, particle = rng.choice(WORDS[group])
    particle, plural = particle.replace("-", ""), subject.plural
    if tense == "present":
        english, finite, rest = en if plural else en_he, de if plural else de_er, particle
    elif tense == "past":
        ending = ("n" if de_past.endswith("e") else "en") * plural
        english, finite, rest = en_past, de_past + ending, particle
    elif tense == "perfect":
        english, finite = ("have", "haben") if plural else ("has", "hat")
        english, rest = f"{english} {en_done}", de_done
    else:
        modal, can, could = rng.choice(WORDS["modals"])
        english, finite, rest = f"{modal} {en}", could if plural else can, particle + de
    place = ("", "")
    if rng.random() < 0.4:
        (en, de), where = rng.choice(WORDS["prepositions"]), phrase(rng, "places")
        place = (f"{en} {where.en}", f"{de} {where.de[DATIVE]}".replace("in dem ", "im "))
    german, middle = subject.de[NOMINATIVE], join(adverb[1], target.de[ACCUSATIVE], place[1])
    return Clause(
        join(subject.en, english, target.en, place[0], adverb[0]),
        join(german, finite, middle, rest),
        join(finite, german, middle, rest),
        join(german, middle, particle + finite if rest == particle else join(rest, finite)),
    )


def sentence(rng: random.Random) -> tuple[str, str]:
    tense, kind, subject = rng.choice(TENSES), rng.choice(KINDS), phrase(rng, "persons")
    adverb = rng.choice(WORDS[f"adverbs {tense}"])
    if kind == "relative":
        who = Phrase("who", [subject.pronoun] * 3, subject.plural, "")
        side = clause(rng, tense, who)
        german = [f"{subject.de[NOMINATIVE]}, {side.last},"] * 3
        subject = Phrase(f"{subject.en} {side.en}", german, subject.plural, "")
    main = clause(rng, tense, subject, adverb if kind == "simple" else ("", ""))
    pair = main.en, main.second
    if kind == "fronted":
        pair = f"{adverb[0]} {main.en}", f"{adverb[1]} {main.inverted}"
    elif "conjunction" in kind:
        side = clause(rng, tense, phrase(rng, "persons"))
        en, de = rng.choice(WORDS["conjunctions"])
        pair = f"{main.en} {en} {side.en}", f"{main.second}, {de} {side.last}"
        if "first" in kind:
            pair = f"{en} {side.en}, {main.en}", f"{de} {side.last}, {main.inverted}"
    en, de = (f"{text[0].upper()}{text[1:]}." for text in pair)
    return en, de


def generate(seed: int, sizes: dict[str, int]) -> dict[str, list[tuple[str, str]]]:
    """Sentence pairs for each split; no sentence of either language occurs twice."""
    rng, seen = random.Random(seed), set()
    splits: dict[str, list[tuple[str, str]]] = {split: [] for split in sizes}
    for split, pairs in splits.items():
        while len(pairs) < sizes[split]:
            pair = sentence(rng)
            if seen.isdisjoint(pair):
                seen.update(pair)
                pairs.append(pair)
    return splits
