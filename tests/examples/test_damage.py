"""The rules of kinds.tsv: good translations pass, broken ones do not."""

import damage
import pytest

from resmlp_mt_runtime.errors import UserError

LINES = {line.text: line for line in damage.lines()}
SUNDAY, TRAIN = "WE ARE CLOSED ON SUNDAY.", "The train leaves at 14:30."
HOME, SENT = 'The word "home" has many meanings.', "%1$s has sent you %2$s."
TITLE = "The Girl Who Was Afraid Of The Dark"
CASES = [  # language, text, a good translation, a broken one, and what is wrong with it
    ("de", SUNDAY, "WIR SCHLIEßEN AM SONNTAG.", "WE ARE CLOSED AM SONNTAG.", "not translated"),
    ("de", SUNDAY, "AM SONNTAG GESCHLOSSEN.", "", "empty"),
    ("de", TITLE, "Das Mädchen, das sich fürchtete", TITLE.replace("Was", "War"), "not translated"),
    ("de", TITLE, "Das Mädchen, das sich im Dunkeln fürchtete", "Mädchen", "another length"),
    ("fr", TITLE, "La fille dans le noir", "La fille a peur " * 5, "another length"),
    ("de", SENT, "Von %1$s kommt %2$s.", "Von %1$s kommt %s.", "lost %2$s"),
    ("de", SENT, "Von %1$s kommt %2$s.", "%1$s hat %2$s und %2$s.", "lost %2$s"),
    ("de", "1,000", "1.000", "1,000", "another number"),
    ("fr", "1,000", "1\u202f000", "100", "another number"),
    ("fr", "3.14", "3,14", "314", "another number"),
    ("de", TRAIN, "Er fährt um 14.30 Uhr.", "Er fährt um 14:20 Uhr.", "another number"),
    ("fr", TRAIN, "Il part à 14 h 30.", "Il part à 2:30.", "another number"),
    ("de", "House", "Das Haus", "Das Haus ist ein", "another length"),
    ("fr", "Yes!", "Oui !", "Oui.", "another mark"),
    ("de", "?", "?", "Was?", "something else"),
    ("de", "I met 王伟 in 北京 yesterday.", "王伟 traf ich in 北京.", "王 in 北京.", "lost 王伟"),
    ("de", "Weather", "Wetter", "weather", "not translated"),
    ("de", "Loading...", "Wird geladen …", "Wird geladen.", "another mark"),
    ("de", SUNDAY, "AM SONNTAG GESCHLOSSEN.", "Am Sonntag GESCHLOSSEN.", "small letters"),
    ("de", SUNDAY, "AM SONNTAG GESCHLOSSEN.", "...", "small letters"),
    ("fr", "The answer is 42.", "La réponse est 42.", "The answer is 42.", "not translated"),
    ("de", HOME, "Das Wort „home“ heißt viel.", "Das Wort home heißt viel.", "other quotes"),
]


@pytest.mark.parametrize("language, text, good, broken, wrong", CASES)
def test_good_translations_pass_and_broken_ones_do_not(language, text, good, broken, wrong):
    assert damage.damage(LINES[text], good, language) == ""
    assert damage.damage(LINES[text], broken, language) == wrong


def test_shares_are_counted_by_kind():
    copied = damage.shares(list(LINES), "de")  # as if nothing had been translated
    assert copied.pop("alone") == (39, 70) and copied.pop("numbers") == (40, 40)
    assert copied.pop("addresses") == (19, 20) and copied.pop("units") == (19, 20)
    assert copied.pop("scripts") == (18, 20) and {*copied.values()} == {(20, 20)}
    assert len(LINES) == 290
    with pytest.raises(UserError, match="1 translations of the 290 lines"):
        damage.shares([""], "de")
