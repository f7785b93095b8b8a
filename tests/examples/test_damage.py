"""The rules of kinds.tsv: good translations pass, broken ones do not."""

from collections import Counter

import damage
import pytest

from resmlp_mt_runtime.errors import UserError

# text, good translations into German and into French, and broken ones into German
CASES = {
    "WE ARE CLOSED ON SUNDAY.": (
        ["AM SONNTAG IST GESCHLOSSEN.", "WIR SCHLIEßEN AM SONNTAG."],
        ["NOUS SOMMES FERMÉS LE DIMANCHE."],
        ["", "Wir haben am Sonntag geschlossen.", "WE ARE CLOSED AM SONNTAG."],
    ),
    "The Girl Who Was Afraid Of The Dark": (
        ["Das Mädchen, das sich im Dunkeln fürchtete"],
        ["La fille qui avait peur du noir"],
        ["Das Girl Who War Afraid Of The Dark", "Mädchen", "Das Mädchen" * 1 + " und das" * 8],
    ),
    "Read the <a href=\"https://example.com/help\">instructions</a> first.": (
        ["Lesen Sie zuerst die <a href=\"https://example.com/help\">Anleitung</a>."],
        ["Lisez d’abord le <a href=\"https://example.com/help\">mode d’emploi</a>."],
        [
            "Lesen Sie zuerst die Anleitung.",
            "Lesen Sie zuerst die <a href=\"https://example.com/help\">Anleitung.",
            "Lesen Sie zuerst die <a href=\"https://example.com/help\">Anleitung</a></a>.",
        ],
    ),
    "%1$s has sent you %2$s.": (
        ["%1$s hat Ihnen %2$s geschickt.", "Von %1$s kommt %2$s."],
        ["%1$s vous a envoyé %2$s."],
        ["%1$s hat Ihnen %s geschickt.", "%1$s hat Ihnen %2$s und %2$s geschickt."],
    ),
    "He paid $1,299.95 for the computer.": (
        ["Er zahlte 1.299,95 $ für den Rechner.", "Er zahlte 1299,95 Dollar dafür."],
        ["Il a payé l'ordinateur 1\u202f299,95\u00a0$.", "Il a payé 1 299,95 dollars."],
        ["Er zahlte 1,299.95 $.", "Er zahlte 1.299,9 $.", "Er zahlte $ 1.299,95 und 3 Cent."],
    ),
    "The train leaves at 14:30.": (
        ["Der Zug fährt um 14:30 Uhr.", "Der Zug fährt um 14.30 Uhr ab."],
        ["Le train part à 14 h 30.", "Le train part à 14h30."],
        ["Der Zug fährt um 14:20 Uhr.", "Der Zug fährt um 2:30 Uhr."],
    ),
    "Version 2.14.1 was released in 2023.": (
        ["Version 2.14.1 erschien 2023."],
        ["La version 2.14.1 est sortie en 2023."],
        ["Version 2.14 erschien 2023.", "Version 2.14.1 erschien 2022."],
    ),
    "There were 23,456,789 visitors.": (
        ["Es gab 23.456.789 Besucher.", "Es waren 23 456 789.", "23456789 Menschen kamen."],
        ["Il y a eu 23 456 789 visiteurs."],
        ["Es gab 23,456,789 Besucher.", "Es gab 23.456.78 Besucher.", "Es gab 23 Besucher."],
    ),
    "1,000": (["1.000", "1000"], ["1 000"], ["1,000", "100", "1.000."]),
    "House": (["Haus", "Das Haus"], ["Maison"], ["House", "Das Haus ist ein Haus", "Haus."]),
    "Yes!": (["Ja!"], ["Oui !"], ["Ja", "Ja.", "Yes!"]),
    "&": (["&"], ["&"], ["und", "& &", "& Co"]),
    "The word \"home\" has many meanings.": (
        ["Das Wort „home“ hat viele Bedeutungen.", "Das Wort »Heim« bedeutet vieles."],
        ["Le mot « home » a plusieurs sens."],
        ["Das Wort home hat viele Bedeutungen.", "Das Wort „home hat viele Bedeutungen."],
    ),
    "Our family 👨‍👩‍👧 lives here.": (
        ["Hier wohnt unsere Familie 👨‍👩‍👧."],
        ["Notre famille 👨‍👩‍👧 habite ici."],
        ["Unsere Familie 👨👩👧 wohnt hier."],
    ),
}  # fmt: skip
LINES = {line.text: line for line in damage.lines()}


def test_there_are_enough_lines_of_each_kind():
    count = Counter(line.kind for line in damage.lines())
    assert len(count) == 10 and min(count.values()) >= 20
    assert count["numbers"] == 40 and count["alone"] == 70 and len(LINES) == count.total()
    assert all(each in line.text for line in damage.lines() for each in line.kept)


@pytest.mark.parametrize("text", CASES)
def test_good_translations_pass_and_broken_ones_do_not(text):
    german, french, broken = CASES[text]
    for language, good in (("de", german), ("fr", french)):
        assert [damage.damage(LINES[text], each, language) for each in good] == [""] * len(good)
    assert all(damage.damage(LINES[text], each, "de") for each in broken)


def test_shares_are_counted_by_kind():
    broken = damage.shares([""] * len(LINES), "de")
    assert broken["alone"] == (70, 70) and sum(total for _, total in broken.values()) == len(LINES)
    copied = damage.shares(list(LINES), "de")  # as if nothing had been translated
    assert copied["capitals"] == copied["titles"] == (20, 20) and copied["tags"] == (0, 20)
    with pytest.raises(UserError, match="1 translations of the 270 lines"):
        damage.shares([""], "de")
