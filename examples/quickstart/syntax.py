"""Phrases and clauses in no language's order yet, and how English and German say them."""

from dataclasses import dataclass

import lexicon as lx


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
