"""The quickstart's grammar: right German, one translation for each sentence, no leaks."""

import random

import grammar
import lexicon as lx
import pytest
from syntax import Clause, Phrase, Pronoun

NOUNS = {
    noun.en: noun
    for group in (lx.PERSONS, lx.ANIMALS, lx.THINGS, lx.PLACES, lx.FRUIT_HEADS)
    for noun in group
}
VERBS = {verb.en[0]: verb for group in lx.VERBS.values() for verb in group} | {"be": lx.BE}
ADJECTIVES = dict(lx.BEING_ADJECTIVES + lx.THING_ADJECTIVES)
LINKS = dict(lx.MODIFIERS + lx.FRUITS)
MODALS = {modal[0]: modal for modal in lx.MODALS}


def phrase(words, plural=False):
    """The phrase of a determiner, perhaps an adjective, perhaps a modifier, and a singular noun."""
    first, *middle, last = words.split()
    (determiner,) = [d for d in lx.DETERMINERS if first in (d.en, d.en_plural)]
    noun = NOUNS[last]
    if middle and middle[-1] in LINKS:
        modifier = middle.pop()
        noun = noun.modified(modifier, LINKS[modifier])
    adjective = (middle[0], ADJECTIVES[middle[0]]) if middle else None
    return Phrase(determiner, adjective, noun, plural)


def clause(subject, verb, tense="present", *objects, **more):
    if isinstance(subject, str):
        subject = phrase(subject)
    return Clause(subject, VERBS[verb], tense, objects=objects, **more)


@pytest.fixture(scope="module")
def corpus():
    return grammar.generate(3, {"train": 4000, "valid": 300, "test": 300})


def test_generate_is_deterministic(corpus):
    again = grammar.generate(3, {"train": 4000, "valid": 300, "test": 300})
    assert again == corpus
    assert grammar.generate(4, {"train": 50}) != grammar.generate(3, {"train": 50})


def test_no_sentence_twice_on_either_side(corpus):
    pairs = [pair for split in corpus.values() for pair in split]
    assert {name: len(split) for name, split in corpus.items()} == {
        "train": 4000,
        "valid": 300,
        "test": 300,
    }
    for side in (0, 1):
        assert len({pair[side] for pair in pairs}) == len(pairs)


def test_sentences_are_well_formed(corpus):
    for en, de in corpus["train"]:
        assert 5 <= len(en.split()) <= 22
        for text in (en, de):
            assert text[0].isupper() and text.endswith(".") and not text.endswith(",.")
            assert "  " not in text and " ," not in text and ",," not in text


def test_one_translation_each_way():
    writer, to_german, to_english = grammar.Writer(random.Random(5)), {}, {}
    for _ in range(20000):
        en, de = writer.sentence()
        assert to_german.setdefault(en, de) == de
        assert to_english.setdefault(de, en) == en


# words of phrase(), plural ones with a star | English | German: nominative, accusative, dative
PHRASES = """
the old man | the old man | der alte Mann, den alten Mann, dem alten Mann
a tired woman | a tired woman | eine müde Frau, eine müde Frau, einer müden Frau
a old child | an old child | ein altes Kind, ein altes Kind, einem alten Kind
a uncle | an uncle | ein Onkel, einen Onkel, einem Onkel
my small dog | my small dog | mein kleiner Hund, meinen kleinen Hund, meinem kleinen Hund
this boy | this boy | dieser Junge, diesen Jungen, diesem Jungen
every student | every student | jeder Student, jeden Studenten, jedem Studenten
*the big house | the big houses | die großen Häuser, die großen Häuser, den großen Häusern
*this car | these cars | diese Autos, diese Autos, diesen Autos
*many green tree | many green trees | viele grüne Bäume, viele grüne Bäume, vielen grünen Bäumen
*two mouse | two mice | zwei Mäuse, zwei Mäuse, zwei Mäusen
the apple tree | the apple tree | der Apfelbaum, den Apfelbaum, dem Apfelbaum
a birthday dress | a birthday dress | ein Geburtstagskleid, ein Geburtstagskleid, einem Geburtstagskleid
*three new kitchen table | three new kitchen tables | drei neue Küchentische, drei neue Küchentische, drei neuen Küchentischen
"""  # noqa: E501


@pytest.mark.parametrize("line", PHRASES.strip().splitlines())
def test_noun_phrases(line):
    words, en, german = line.split(" | ")
    made = phrase(words.lstrip("*"), plural=words.startswith("*"))
    assert made.english() == en
    assert [made.german(case) for case in lx.CASES] == german.split(", ")


CAT, BOOKS, BOY = phrase("the cat"), phrase("many new book", True), phrase("a boy")
THEY, I_ = Pronoun("they", "sie", "p"), Pronoun("I", "ich", "1s")
GARDEN = ("in the garden", "im Garten")


@pytest.mark.parametrize(
    "made, en, second, first, last",
    [
        (
            clause(
                "the dog", "see", "present", (CAT, "acc"), ending=GARDEN, adverb=("today", "heute")
            ),
            "the dog sees the cat in the garden today",
            "der Hund sieht heute die Katze im Garten",
            "sieht der Hund heute die Katze im Garten",
            "der Hund heute die Katze im Garten sieht",
        ),
        (
            clause(THEY, "choose", "past", (BOOKS, "acc")),
            "they chose many new books",
            "sie suchten viele neue Bücher aus",
            "suchten sie viele neue Bücher aus",
            "sie viele neue Bücher aussuchten",
        ),
        (
            clause(I_, "invite", "present", (BOY, "acc")),
            "I invite a boy",
            "ich lade einen Jungen ein",
            "lade ich einen Jungen ein",
            "ich einen Jungen einlade",
        ),
        (
            clause("the queen", "give", "perfect", (BOY, "dat"), (BOOKS, "acc")),
            "the queen has given a boy many new books",
            "die Königin hat einem Jungen viele neue Bücher gegeben",
            "hat die Königin einem Jungen viele neue Bücher gegeben",
            "die Königin einem Jungen viele neue Bücher gegeben hat",
        ),
        (
            clause(THEY, "return", "perfect", ending=("to the school", "zur Schule")),
            "they have returned to the school",
            "sie sind zur Schule zurückgekommen",
            "sind sie zur Schule zurückgekommen",
            "sie zur Schule zurückgekommen sind",
        ),
        (
            clause("every girl", "bring", "modal", (CAT, "acc"), modal=MODALS["wants to"]),
            "every girl wants to bring the cat",
            "jedes Mädchen will die Katze mitbringen",
            "will jedes Mädchen die Katze mitbringen",
            "jedes Mädchen die Katze mitbringen will",
        ),
    ],
)
def test_clauses_in_each_order(made, en, second, first, last):
    assert made.english() == en
    assert [made.german(order) for order in ("second", "first", "last")] == [second, first, last]


def test_relative_and_that_clauses():
    women = phrase("the woman", plural=True)
    made = clause(
        women, "buy", "present", (BOOKS, "acc"), relative=clause(women, "arrive", "perfect")
    )
    assert made.english() == "the women who have arrived buy many new books"
    assert made.german() == "die Frauen, die angekommen sind, kaufen viele neue Bücher"
    made = clause("the horse", "sleep", relative=clause("the horse", "see", "past", (CAT, "acc")))
    assert made.english() == "the horse that saw the cat sleeps"
    assert made.german() == "das Pferd, das die Katze sah, schläft"
    said = clause("my son", "call", "past", (CAT, "acc"))
    made = clause("the king", "hope", "perfect", that=said)
    assert made.english() == "the king has hoped that my son called the cat"
    assert made.german() == "der König hat gehofft, dass mein Sohn die Katze anrief"


def test_articles_agree_with_gender():
    articles = {"m": ["der", "den", "dem"], "f": ["die", "die", "der"], "n": ["das", "das", "dem"]}
    for noun in NOUNS.values():
        made = Phrase(lx.DETERMINERS[0], None, noun, False)
        assert [made.german(case).split()[0] for case in lx.CASES] == articles[noun.gender]
        a = Phrase(lx.DETERMINERS[1], None, noun, False)
        assert a.german("nom").split()[0] == ("eine" if noun.gender == "f" else "ein")
        plural = Phrase(lx.DETERMINERS[0], None, noun, True)
        assert plural.german("nom").startswith("die ")
        assert plural.german("dat").startswith("den ") and plural.german("dat")[-1] in "ns"
        assert not noun.weak or noun.gender == "m"
