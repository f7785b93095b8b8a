"""Write a small parallel corpus, English to German, for the quickstart.

A grammar of our own builds both sides of each sentence together, so that every English sentence
has exactly one right translation: agreement in number, gender and case, compounds written as one
word, separable verbs, verbs at the end of a clause and the inversion after a fronted element.

    python examples/quickstart/grammar.py --out corpus --train 30000 --valid 500 --test 500
"""

import argparse
import os
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path

import lexicon as lx

WORDS = (5, 22)  # shortest and longest English sentence
DRAWS = 20  # random sentences tried for each one asked for, at most
ANIMAL_CLAUSES = ("intransitive", "being", "being", "motion", "be")
CLAUSES = ("intransitive", "being", "person", "thing", "thing", "thing", "transfer", "motion", "be")


@dataclass(frozen=True)
class Phrase:
    """A noun phrase: determiner, adjective (English, German) or None, noun, number."""

    determiner: lx.Determiner
    adjective: tuple | None
    noun: lx.Noun
    plural: bool

    @property
    def person(self) -> str:
        """The form of the verb that it asks for as a subject: 3s or p."""
        return "p" if self.plural else "3s"

    @property
    def agreement(self) -> str:
        """What its determiner and adjective agree with: the gender, or p in the plural."""
        return "p" if self.plural else self.noun.gender

    def english(self) -> str:
        """The English side."""
        noun = self.noun.en_plural if self.plural else self.noun.en
        rest = f"{self.adjective[0]} {noun}" if self.adjective else noun
        determiner = self.determiner.en_plural if self.plural else self.determiner.en
        return f"{'an' if determiner == 'a' and rest[0] in 'aeiou' else determiner} {rest}"

    def german(self, case: str) -> str:
        """The German side in a case."""
        words = [self.german_determiner(case), self.noun.german(case, self.plural)]
        if self.adjective:
            endings = lx.ADJECTIVE_ENDING[self.determiner.declension][self.agreement]
            ending = endings[lx.CASES.index(case)]
            words.insert(1, self.adjective[1].removesuffix("e") + ending)
        return " ".join(words)

    def german_determiner(self, case: str) -> str:
        """The determiner in a case."""
        stem, column = self.determiner.de, lx.CASES.index(case)
        if stem == "d":
            return lx.ARTICLE[self.agreement][column]
        if stem in ("zwei", "drei"):
            return stem
        table = lx.EIN_ENDING if self.determiner.declension == "ein" else lx.DER_ENDING
        return stem + table[self.agreement][column]


@dataclass(frozen=True)
class Pronoun:
    """A pronoun as a subject."""

    en: str
    de: str
    person: str

    def english(self) -> str:
        """The English side."""
        return self.en

    def german(self, case: str) -> str:
        """The German side; a pronoun is only ever a nominative."""
        return self.de


@dataclass(frozen=True)
class Clause:
    """Subject, verb and what follows, in no language's order yet.

    *tense* is present, past, perfect or modal. *objects* are phrases with their case. *ending* is
    text of both languages: a predicative adjective or a prepositional phrase. *relative* is a
    clause about the subject, and *that* the content of what is said.
    """

    subject: Phrase | Pronoun
    verb: lx.Verb
    tense: str
    modal: tuple | None = None
    objects: tuple = ()
    ending: tuple = ("", "")
    adverb: tuple = ("", "")
    fronted: bool = False  # the adverb opens the clause
    relative: "Clause | None" = None
    that: "Clause | None" = None

    def english(self) -> str:
        """The English sentence or clause, without capital and full stop."""
        subject = self.subject.english()
        if self.relative:
            pronoun = "who" if self.subject.noun in lx.PERSONS else "that"
            subject += f" {pronoun} {self.relative.english_predicate()}"
        return join(self.adverb[0] if self.fronted else "", subject, self.english_predicate())

    def english_predicate(self) -> str:
        """What stands after the subject or the relative pronoun."""
        objects = [phrase.english() for phrase, _ in self.objects]
        adverb = "" if self.fronted else self.adverb[0]
        that = f"that {self.that.english()}" if self.that else ""
        return join(self.english_verb(), *objects, self.ending[0], adverb, that)

    def english_verb(self) -> str:
        """The verb with its auxiliary."""
        person = self.subject.person
        if self.tense == "modal":
            return f"{self.modal[0 if person == '3s' else 1]} {self.verb.en[0]}"
        if self.tense == "perfect":
            return f"{english_finite(lx.HAVE, 'present', person)} {self.verb.en[3]}"
        return english_finite(self.verb, self.tense, person)

    def german(self, order: str = "second") -> str:
        """The German clause with its verb second, first (after a fronted clause) or last."""
        subject = self.subject.german("nom")
        if self.relative:
            pronoun = lx.ARTICLE[self.subject.agreement][0]
            subject += f", {pronoun} {self.relative.german_predicate()},"
        that = f", dass {self.that.german('last')}" if self.that else ""
        if order == "last":
            return f"{subject} {self.german_predicate()}{that}"
        finite, rest = self.german_verb()
        if order == "first":
            words = [finite, subject, self.adverb[1]]
        elif self.fronted:
            words = [self.adverb[1], finite, subject]
        else:
            words = [subject, finite, self.adverb[1]]
        return join(*words, *self.german_middle(), rest) + that

    def german_predicate(self) -> str:
        """What stands after the subject, or the relative pronoun, with the verb at the end."""
        finite, rest = self.german_verb()
        separable = self.verb.particle and rest == self.verb.particle
        verb = rest + finite if separable else join(rest, finite)
        return join(self.adverb[1], *self.german_middle(), verb)

    def german_middle(self) -> list:
        """Objects and prepositional phrase."""
        return [phrase.german(case) for phrase, case in self.objects] + [self.ending[1]]

    def german_verb(self) -> tuple:
        """The finite verb, and what stands at the end: particle, participle or infinitive."""
        person = self.subject.person
        if self.tense == "modal":
            return german_finite(self.modal[2], "present", person), self.verb.de[0]
        if self.tense == "perfect":
            auxiliary = lx.BE if self.verb.be else lx.HAVE
            return german_finite(auxiliary, "present", person), self.verb.de[3]
        return german_finite(self.verb, self.tense, person), self.verb.particle


def join(*parts: str) -> str:
    """The parts that are not empty, with spaces between them."""
    return " ".join(part for part in parts if part)


def english_finite(verb: lx.Verb, tense: str, person: str) -> str:
    """A verb in the present or past for 1s, 3s or p."""
    if verb is lx.BE:
        forms = {"present": ("am", "is", "are"), "past": ("was", "was", "were")}
        return forms[tense][("1s", "3s", "p").index(person)]
    if tense == "past":
        return verb.en[2]
    return verb.en[1] if person == "3s" else verb.en[0]


def german_finite(verb: lx.Verb, tense: str, person: str) -> str:
    """A verb, without its particle, in the present or past for 1s, 3s or p."""
    infinitive, third, past = verb.stem_infinitive, verb.de[1], verb.de[2]
    if tense == "past":
        return past if person != "p" else past + ("n" if past.endswith("e") else "en")
    if person == "1s":
        return verb.first or infinitive[:-1]
    if person == "3s":
        return third
    return infinitive if verb is not lx.BE else "sind"


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
            f"{first.german()}, {de} {second.german()}")

    def sentence(self) -> tuple:
        """One sentence of any kind, English and German."""
        kinds = [self.simple, self.inverted, self.subordinate, self.content, self.relative,
                 self.coordinated]
        (kind,) = self.rng.choices(kinds, (4, 3, 4, 2, 2, 1))
        en, de = kind()
        return f"{capital(en)}.", f"{capital(de)}."


def generate(seed: int, splits: dict[str, int]) -> dict[str, list[tuple[str, str]]]:
    """Sentence pairs for each split: no English and no German sentence occurs twice in them all.

    Args:
        seed: decides the sentences, together with the splits' sizes and order.
        splits: number of sentences of each, by name.

    Raises:
        ValueError: for a negative number, or for more sentences than random draws find.
    """
    for name, count in splits.items():
        if count < 0:
            raise ValueError(f"{name}: cannot write {count} sentences")
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
        raise ValueError(f"only {len(pairs)} different sentences in {DRAWS * wanted} draws, and "
                         f"{wanted} were asked for: ask for fewer")
    rest = iter(pairs)
    return {name: [next(rest) for _ in range(count)] for name, count in splits.items()}


def write(path: Path, lines: list) -> None:
    """Write a text file as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def main(argv: list | None = None) -> int:
    """The command line; gives the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder, made if missing")
    for name, count in (("train", 30000), ("valid", 500), ("test", 500)):
        parser.add_argument(f"--{name}", type=int, default=count, metavar="N",
                            help=f"sentences of {name} (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="default %(default)s")
    args = parser.parse_args(argv)
    splits = {name: getattr(args, name) for name in ("train", "valid", "test")}
    try:
        corpus = generate(args.seed, splits)
        args.out.mkdir(parents=True, exist_ok=True)
        for name, pairs in corpus.items():
            for side, language in enumerate(("en", "de")):
                write(args.out / f"{name}.{language}", [pair[side] for pair in pairs])
    except (ValueError, OSError) as error:
        print(f"grammar.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
