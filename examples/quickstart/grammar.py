"""Write a small parallel corpus, English to German, for the quickstart.

A grammar of our own builds both sides of each sentence together, so that every English sentence
has exactly one right translation: agreement in number, gender and case, compounds written as one
word, separable verbs, verbs at the end of a clause and the inversion after a fronted element.
"""

import random
from dataclasses import dataclass, field

import lexicon as lx
from syntax import Clause, Phrase, Pronoun

from resmlp_mt.errors import UserError

WORDS = (5, 22)  # shortest and longest English sentence
DRAWS = 20  # random sentences tried for each one asked for, at most
ANIMAL_CLAUSES = ("intransitive", "being", "being", "motion", "be")
CLAUSES = ("intransitive", "being", "person", "thing", "thing", "thing", "transfer", "motion", "be")


def capital(text: str) -> str:
    """The text with its first letter as a capital."""
    return text[0].upper() + text[1:]


@dataclass
class Writer:
    """Draws sentences with a random generator of its own."""

    rng: random.Random = field(default_factory=random.Random)

    def chance(self, probability: float) -> bool:
        """True with a probability."""
        return self.rng.random() < probability

    def noun(self, kind: str) -> lx.Noun:
        """A being, thing or place; things and places are compounds half the time."""
        pick = self.rng.choice
        if kind == "being":
            return pick(lx.PERSONS if self.chance(0.7) else lx.ANIMALS)
        if kind == "thing" and self.chance(0.15):
            return pick(lx.FRUIT_HEADS).modified(*pick(lx.FRUITS))
        noun = pick({"person": lx.PERSONS, "thing": lx.THINGS, "place": lx.PLACES}[kind])
        if kind == "person" or self.chance(0.5):
            return noun
        modifiers = lx.MODIFIERS if kind == "thing" else lx.PLACE_MODIFIERS
        return noun.modified(*pick([pair for pair in modifiers if pair[0] != noun.en]))

    def phrase(self, kind: str, adjective: float = 0.35) -> Phrase:
        """A noun phrase of a kind."""
        plural = self.chance(0.4)
        determiners = [d for d in lx.DETERMINERS if (d.plural if plural else d.singular)]
        # the article is as frequent as all the others together
        determiner = determiners[0] if self.chance(0.4) else self.rng.choice(determiners)
        beings = kind in ("being", "person")
        adjectives = lx.BEING_ADJECTIVES if beings else lx.THING_ADJECTIVES
        chosen = self.rng.choice(adjectives) if self.chance(adjective) else None
        return Phrase(determiner, chosen, self.noun(kind), plural)

    def prepositional(self, prepositions: list) -> tuple:
        """A preposition and a place in the dative; "in dem" becomes "im"."""
        en, de = self.rng.choice(prepositions)
        place = self.phrase("place", adjective=0.25)
        article, _, rest = place.german("dat").partition(" ")
        start = f"{de} {article}"
        return f"{en} {place.english()}", f"{lx.CONTRACTIONS.get(start, start)} {rest}"

    def clause(self, size: float, tense: str = "", subject=None, **more) -> Clause:
        """A clause with a random verb; *size* from 0 to 1 is how likely its optional parts are."""
        tense = tense or self.rng.choice(list(lx.ADVERBS))
        if subject is None and self.chance(0.25):
            subject = Pronoun(*self.rng.choice(lx.PRONOUNS))
        subject = subject or self.phrase("being", adjective=0.4 * size)
        animal = isinstance(subject, Phrase) and subject.noun in lx.ANIMALS
        group = self.rng.choice(ANIMAL_CLAUSES if animal else CLAUSES)
        place = self.prepositional(lx.PLACE_PREPOSITIONS) if self.chance(0.4 * size) else ("", "")
        objects = ()
        if group == "be":
            verb, place = lx.BE, self.rng.choice(lx.BEING_ADJECTIVES)
        else:
            verb = self.rng.choice(lx.VERBS[group])
        if group == "motion":
            place = self.prepositional(lx.MOTION_PREPOSITIONS)
        elif group == "transfer":
            objects = ((self.phrase("person", 0.3 * size), "dat"), (self.phrase("thing"), "acc"))
            place = ("", "")
        elif group in ("being", "person", "thing"):
            objects = ((self.phrase(group), verb.frame),)
        return Clause(subject, verb, tense, self.modal(tense), objects, place, **more)

    def modal(self, tense: str) -> tuple | None:
        """A modal verb if the tense is modal."""
        return self.rng.choice(lx.MODALS) if tense == "modal" else None

    def timed(self, size: float, fronted: bool = False, **more) -> Clause:
        """A clause with an adverb of time that suits its tense."""
        tense = self.rng.choice(list(lx.ADVERBS))
        adverb = self.rng.choice(lx.ADVERBS[tense])
        return self.clause(size, tense, adverb=adverb, fronted=fronted, **more)

    # the kinds of sentence; each gives both sides without capital and full stop

    def simple(self) -> tuple:
        """One clause, with an adverb of time half the time."""
        clause = self.timed(1) if self.chance(0.5) else self.clause(1)
        return clause.english(), clause.german()

    def inverted(self) -> tuple:
        """An adverb first: in German the verb comes before the subject."""
        clause = self.timed(1, fronted=True)
        return clause.english(), clause.german()

    def subordinate(self) -> tuple:
        """A main clause and a subordinate one, in either order."""
        tenses = self.rng.choice(lx.TIMES)
        main, tense = self.clause(0.3, self.rng.choice(tenses)), self.rng.choice(tenses)
        clause = self.clause(0.3, tense)
        en, de = self.rng.choice(lx.CONJUNCTIONS[tense])
        en, de = f"{en} {clause.english()}", f"{de} {clause.german('last')}"
        if self.chance(0.5):
            return f"{en}, {main.english()}", f"{de}, {main.german('first')}"
        return f"{main.english()} {en}", f"{main.german()}, {de}"

    def content(self) -> tuple:
        """What somebody says or thinks, verb last."""
        subject = self.phrase("person", 0.3)
        tense = self.rng.choice(("present", "past", "perfect"))
        inner = self.timed(0.4) if self.chance(0.3) else self.clause(0.4)
        verb = self.rng.choice(lx.VERBS["say"])
        clause = Clause(subject, verb, tense, that=inner)
        return clause.english(), clause.german()

    def relative(self) -> tuple:
        """A clause about the subject, verb last."""
        subject = self.phrase("being", 0.3)
        clause = self.clause(0.3, subject=subject, relative=self.clause(0.3, subject=subject))
        return clause.english(), clause.german()

    def coordinated(self) -> tuple:
        """Two main clauses."""
        first, second = self.clause(0.3), self.clause(0.3)
        en, de = self.rng.choice(lx.COORDINATORS)
        return f"{first.english()}, {en} {second.english()}", (
            f"{first.german()}, {de} {second.german()}"
        )

    def sentence(self) -> tuple:
        """One sentence of any kind, English and German."""
        kinds = [
            self.simple,
            self.inverted,
            self.subordinate,
            self.content,
            self.relative,
            self.coordinated,
        ]
        (kind,) = self.rng.choices(kinds, (4, 3, 4, 2, 2, 1))
        en, de = kind()
        return f"{capital(en)}.", f"{capital(de)}."


def generate(seed: int, splits: dict[str, int]) -> dict[str, list[tuple[str, str]]]:
    """Sentence pairs for each split: no English and no German sentence occurs twice in them all.

    Args:
        seed: decides the sentences, together with the splits' sizes and order.
        splits: number of sentences of each, by name.

    Raises:
        UserError: for a negative number, or for more sentences than random draws find.
    """
    for name, count in splits.items():
        if count < 0:
            raise UserError(f"{name}: cannot write {count} sentences")
    writer, seen, wanted = Writer(random.Random(seed)), set(), sum(splits.values())
    pairs = []
    for _ in range(DRAWS * wanted):
        if len(pairs) == wanted:
            break
        pair = writer.sentence()
        if WORDS[0] <= len(pair[0].split()) <= WORDS[1] and seen.isdisjoint(pair):
            seen.update(pair)
            pairs.append(pair)
    if len(pairs) < wanted:
        raise UserError(
            f"only {len(pairs)} different sentences in {DRAWS * wanted} draws, and "
            f"{wanted} were asked for: ask for fewer"
        )
    rest = iter(pairs)
    return {name: [next(rest) for _ in range(count)] for name, count in splits.items()}
