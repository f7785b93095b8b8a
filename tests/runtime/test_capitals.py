"""Lines in capitals: which they are, how they are read, how their translations are written."""

from types import SimpleNamespace
from unittest import mock

from command import resmlp
from exported_models import LINES
from fairseq_programs import ROOT

from resmlp_mt import ResMLPModel
from resmlp_mt_runtime import Model
from resmlp_mt_runtime.capitals import capitals_of, in_capitals, lower, small_letters, upper
from resmlp_mt_runtime.sentences import Hypothesis

# the most frequent first; a word that is not there has a piece for each character
WORDS = "the a open door we live in sunday I i Sunday London The A Who Straße"


def engine(language="en", words=WORDS):
    ranks = {word: number for number, word in enumerate(words.split())}
    return SimpleNamespace(
        pieces=lambda text: [text] if text in ranks else list(text),
        rank=lambda piece: ranks.get(piece, float("inf")),
        languages=(language, "de"),
    )


CAPITALS = ["OPEN", "DON'T PANIC!", "3 MÄRZ: ΚΑΛΗ", "OPEN 2 <B>", "NATO, I"]
# an acronym, a small letter, a letter without case
OTHERS = ["", "US", "WHO?", "USB 3.0", "Open", "OPEN %s"]
OTHERS += ["USB接口 OPEN", "ǅEEEE", "გამარჯობა", "①②③④"]


def test_which_lines_are_in_capitals():
    assert list(filter(in_capitals, [*CAPITALS, *OTHERS])) == CAPITALS
    assert [small_letters(line, engine()) for line in OTHERS] == OTHERS


def test_words_get_the_form_that_the_training_text_has():
    for line, expected in (
        ("WE LIVE IN LONDON", "We live in London"),  # fewer pieces
        ("OPEN THE\t(USB)  DOOR!", "Open the\t(USB)  door!"),  # three letters of several pieces
        ("IN SUNDAY I LIVE", "In sunday I live"),  # of as many pieces, the more frequent ones
        ('"OPEN!" WE LIVE. THE DOOR? THE', '"Open!" We live. The door? The'),
        ("- 3 THE DOOR IN 2024. THE", "- 3 The door in 2024. The"),
        ("STOP ! OPEN", "Stop ! Open"),
        ("LUGGAGE IN LUGGAGE", "Luggage in luggage"),  # unknown in each form
        ("LUGGAGE!", "LUGGAGE!"),  # alone, it may be a name
        ("OPEN!", "Open!"),
        ("OPEN AT&T, CTRL+ALT, MP3X", "Open AT&T, CTRL+ALT, MP3X"),
        ("I'D OPEN", "I'd open"),
        ("SUNDAYS OPEN", "SUNDAYS open"),  # a word of the training text
    ):
        assert small_letters(line, engine(words=f"{WORDS} SUNDAYS")) == expected


def test_cases_of_languages():
    assert upper("καλημέρα ή όχι. Ή", "ell") == "ΚΑΛΗΜΕΡΑ Ή ΟΧΙ. Ή"
    assert upper("ρολόι, άυλος, αύριο", "el") == "ΡΟΛΟΪ, ΑΫΛΟΣ, ΑΥΡΙΟ"
    assert upper("weiß", "de") == "WEISS" and upper("კარგი", "ka") == "კარგი"
    assert upper("ılık iyi", "tr_TR") == "ILIK İYİ" and lower("ILIK İYİ", "tr") == "ılık iyi"
    assert small_letters("IŞIK İYİDİR", engine("az", "iyidir")) == "Işık iyidir"
    greek = engine("el", "Άννα έλα η έφυγε")
    assert small_letters("ΈΛΑ, Η ΆΝΝΑ ΈΦΥΓΕ", greek) == "Έλα, η Άννα έφυγε"
    assert small_letters("NAAR IJSLAND", engine("nld", "naar IJsland")) == "Naar IJsland"
    turkish = SimpleNamespace(languages=("en", "tr"))
    (found,) = capitals_of("GOOD", [Hypothesis("iyi", -1.0)], turkish)
    assert found == Hypothesis("İYİ", -1.0)


def test_every_way_of_translating():
    """The translation of the line in small letters, in capitals; those of other lines stay."""
    lines = ["WE ARE CLOSED ON SUNDAY.", "We are closed on Sunday.", "Open NATO's door."]
    text = "".join(f"{line}\n" for line in lines).encode()
    path = ROOT / "examples" / "mixed" / "model"
    said = [
        resmlp("translate", "--path", path, "--cpu", *more, stdin=text).out.splitlines()
        for more in ((), ("--nbest", 2))
    ]
    capitals, small, other = said[0]
    assert capitals == small.upper() != small and other != other.upper()
    assert said[1][:2] == [line.upper() for line in said[1][2:4]]
    hub = ResMLPModel.from_pretrained(path)
    assert hub.translate(lines, beam=4) == said[0]


def test_an_export(exported):
    """A line with a prefix is translated as it is."""
    model, line = Model(exported), LINES[0].upper()
    small = small_letters(line, model)
    assert small.lower() == LINES[0] and small != line
    (expected,) = model.stream([small], nbest=2)
    (found,) = model.stream([line], nbest=2)
    assert found == [one._replace(text=one.text.upper()) for one in expected]
    as_it_is = next(model.translations([model.pieces(line)], [model.pieces("a red")]))
    assert model.translate([line, small], prefixes=["a red", ""])[0] == as_it_is[0][0].text
    assert as_it_is[0][0].text != as_it_is[0][0].text.upper()
    with mock.patch("resmlp_mt_runtime.model.small_letters", side_effect=AssertionError):
        model.translate([line * 9], prefixes=["a red"])  # in parts
