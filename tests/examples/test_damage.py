"""The rules of kinds.tsv: good translations pass, broken ones do not."""

import damage
import pytest

from resmlp_mt_runtime.errors import UserError

LINES = {line.text: line for line in damage.lines()}
SUNDAY = "WE ARE CLOSED ON SUNDAY."
HOME = 'The word "home" has many meanings.'
TITLE = "The Girl Who Was Afraid Of The Dark"
CASES = [  # language, text, a good translation, and a broken one
    ("de", SUNDAY, "WIR SCHLIEßEN AM SONNTAG.", "WE ARE CLOSED AM SONNTAG."),
    ("de", SUNDAY, "AM SONNTAG GESCHLOSSEN.", ""),
    ("de", TITLE, "Das Mädchen, das sich im Dunkeln fürchtete", TITLE.replace("Was", "War")),
    ("de", TITLE, "Das Mädchen, das sich im Dunkeln fürchtete", "Mädchen"),
    ("de", "%1$s has sent you %2$s.", "Von %1$s kommt %2$s.", "Von %1$s kommt %s."),
    ("de", "%1$s has sent you %2$s.", "Von %1$s kommt %2$s.", "%1$s hat %2$s und %2$s."),
    ("de", "1,000", "1.000", "1,000"),
    ("fr", "1,000", "1\u202f000", "100"),
    ("de", "The train leaves at 14:30.", "Er fährt um 14.30 Uhr.", "Er fährt um 14:20 Uhr."),
    ("fr", "The train leaves at 14:30.", "Il part à 14 h 30.", "Il part à 2:30."),
    ("de", "House", "Das Haus", "Das Haus ist ein Haus"),
    ("fr", "Yes!", "Oui !", "Oui."),
    ("de", "I met 王伟 in 北京 yesterday.", "Ich traf 王伟 in 北京.", "Ich traf 王 in 北京."),
    ("de", "Weather", "Wetter", "weather"),
    ("de", "Loading...", "Wird geladen …", "Wird geladen."),
    ("de", SUNDAY, "AM SONNTAG GESCHLOSSEN.", "..."),
    ("fr", "The answer is 42.", "La réponse est 42.", "The answer is 42."),
    ("de", HOME, "Das Wort „home“ bedeutet vieles.", "Das Wort home bedeutet vieles."),
]


@pytest.mark.parametrize("language, text, good, broken", CASES)
def test_good_translations_pass_and_broken_ones_do_not(language, text, good, broken):
    assert damage.damage(LINES[text], good, language) == ""
    assert damage.damage(LINES[text], broken, language)


def test_shares_are_counted_by_kind():
    copied = damage.shares(list(LINES), "de")  # as if nothing had been translated
    assert copied.pop("alone") == (39, 70) and copied.pop("numbers") == (40, 40)
    assert copied.pop("addresses") == (19, 20) and copied.pop("units") == (19, 20)
    assert copied.pop("scripts") == (18, 20) and {*copied.values()} == {(20, 20)}
    assert len(LINES) == 290
    with pytest.raises(UserError, match="1 translations of the 290 lines"):
        damage.shares([""], "de")
