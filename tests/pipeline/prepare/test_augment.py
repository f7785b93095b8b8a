"""Lines of further kinds: the same on both sides, the same each time, beside the plain ones."""

import re
from collections import Counter
from itertools import chain
from unittest import mock

import pytest
from command import ran
from prepare_text import pairs_of, read_parallel, write_pairs

from resmlp_mt.pipeline.prepare import augment
from resmlp_mt.pipeline.prepare.augment import Augmenter, find_translations, foreign_letters
from resmlp_mt_runtime.languages import _TWO_LETTERS, two_letters
from resmlp_mt_runtime.pieces import Subwords, nfc

WORDS = {"save": "speichern", "old": "alten", "file": "Datei", "folder": "Ordner", "now": "jetzt"}
PAIRS = [
    ("Tom, save the old file now.", "Tom, wir speichern die alten Datei jetzt."),
    ("In 1998 Mary paid 1,250.50 for 30 apples.", "Mary zahlte 1998 für 30 Äpfel 1.250,50."),
    ("Version 2.1.3 at 10:45 has {0} ids A4.", "Version 2.1.3 um 10:45 hat {0} Kennungen A4."),
    ("Is the folder in here?", "Ist der Ordner hier?"),
]


def made(kinds, languages=("en", "de"), pairs=PAIRS, times=100) -> list[tuple]:
    """Lines of these kinds, each with its plain pair, if every pair gets one that allows it."""
    augmenter, found = Augmenter(languages, WORDS, chain(*pairs)), []
    shares = dict.fromkeys(SHARES, 0.0) | dict.fromkeys(kinds.split(), 1.0)
    with mock.patch.dict(augment.TABLE, shares=shares):
        for pair in times * pairs:
            found += [(pair, line) for _, line in augmenter(pair)]
    return found


SHARES = augment.TABLE["shares"]
SWAPPED = str.maketrans(",.", ".,")


def test_every_kind_has_about_its_share():
    augmenter = Augmenter(("en", "de"), WORDS, chain(*PAIRS))
    found = Counter(kind for pair in 600 * PAIRS for kind, _ in augmenter(pair))
    assert set(found) == set(SHARES)
    for kind in ("symbols", "amounts", "quotes", "tags"):  # what every pair allows
        assert found[kind] / (600 * len(PAIRS)) == pytest.approx(SHARES[kind], rel=0.4)


def test_tables_have_the_languages_of_codes_of_three_letters():
    named = {*augment.FORMATS, *augment.QUOTES, *augment.ENDS, *augment.OTHER_UNITS}
    named |= {*augment.TABLE["two_forms"]["languages"].split()}
    assert named <= set(_TWO_LETTERS.values()) and two_letters("pes_Arab") == "fa"


def test_capitals_are_those_that_people_write():
    assert augment.titled("ijs en wijn", "nl", 1) == "IJs En Wijn"
    assert augment.titled("macOS: 5 mL of C", "en", 1) == "macOS: 5 mL Of C"
    assert augment.titled("όνομα", "el", 1) == "Όνομα"
    day, good = "ძალიან კარგი დღე", [("iyi bir ilaç", "a good medicine")]
    georgian = made("capitals", ("en", "ka"), [("a very good day", day)])
    assert {target for _, (_, target) in georgian} == {day}
    assert not made("capitals title", ("ka", "en"), [(day, "good")])
    for languages in (("tr", "en"), ("tur_Latn", "eng_Latn")):
        turkish = made("capitals title", languages, good)
        assert turkish[0][1] == ("İYİ BİR İLAÇ", "A GOOD MEDICINE")
        assert ("İyi Bir İlaç", "A Good Medicine") in {line for _, line in turkish}


@pytest.mark.parametrize("kind", ["tags", "placeholders", "addresses", "symbols"])
def test_what_is_added_is_the_same_on_both_sides(kind):
    """Its signs and digits, in number; around words what was there before stays."""
    for pair, line in made(kind):
        signs = [sorted(re.findall(r"[^\w\s.,:?{}]|[0-9]", side)) for side in line]
        assert signs[0] == signs[1]
        for before, after in zip(pair, line) if kind in ("tags", "symbols") else ():
            letters = iter(after)
            assert all(letter in letters for letter in before)


def test_tags_and_placeholders_stand_at_words_that_translate_each_other():
    inner = set()
    for _, (source, target) in made("tags", times=200):
        found = [re.findall(r"<(\w+).*?>([^<]+)</\1>", side) for side in (source, target)]
        if len(found[0]) == 1:
            inner.add((found[0][0][1], found[1][0][1]))
    assert ("file", "Datei") in inner and ("Tom", "Tom") in inner and ("1998", "1998") in inner
    assert all(WORDS.get(s, s) == t or (s, t) in PAIRS for s, t in inner)
    assert not made("placeholders", pairs=[("a file, a file", "eine Datei, eine Datei")])
    found = {line for _, line in made("placeholders", times=200)}
    assert ("Is the %s in here?", "Ist der %s hier?") in found
    twice = ("file (Datei) is big.", "Datei ist groß.")  # two words of one translation
    targets = [target for _, (_, target) in made("placeholders", pairs=[twice])]
    assert targets and all(target.endswith(" ist groß.") for target in targets)


@pytest.mark.parametrize(
    "code",
    ["%s", "%1$s", "%(Big Old File)d", "{0}", "{ Old File }", "${File}", "<b id='Big Old File'>"]
    + ["x<br/>", "&File;", "_File", "&File", "\\n", "https://old.org/File", "$File", "100%"],
)
def test_nothing_goes_into_tags_placeholders_and_addresses(code):
    """Though both sides have their letters; also where no space is beside them."""
    german, japanese = f"jetzt {code} speichern, Tom", f"{code}を。"
    pairs = [(f"Save {code} now, Tom", german), (f"保存{code}。", japanese)]
    for languages, pair in zip((("en", "de"), ("zh", "ja")), pairs):
        added = [line for _, line in made("tags placeholders symbols", languages, [pair])]
        assert added and all(code in source and code in target for source, target in added)


def test_capitals_and_titles():
    plain = [pair for pair in PAIRS if "{" not in pair[0]]
    assert {line for _, line in made("capitals")} == {(s.upper(), t.upper()) for s, t in plain}
    titles = {line for _, line in made("title")}
    assert ("Tom, Save The Old File Now", PAIRS[0][1][:-1]) in titles
    assert ("Tom, Save the old File now", PAIRS[0][1][:-1]) in titles
    back = made("title", ("de", "en"), [pair[::-1] for pair in PAIRS])
    assert ("Ist Der Ordner Hier?", "Is The Folder In Here?") in {line for _, line in back}


def test_the_target_changes_only_where_the_source_shows_it():
    """Nothing changes the case of scripts without cases, nor a point that one side has not."""
    for source in ("我喜欢Tea。", "देश।"):
        given = ("xx", "en"), [(source, "I like tea.")]
        assert made("joined", *given) and not made("capitals title", *given)
    wait = [("Wait, I am ...", "Warte, ich ...")]
    assert not made("no_final_point", pairs=[*wait, ("At 5 p.m.", "Um 17 Uhr.")])
    assert ("Wait, I Am ...", "Warte, ich ...") in {line for _, line in made("title", pairs=wait)}
    urdu = made("no_final_point", ("ur", "en"), [("مجھے چائے پسند ہے۔", "I like tea.")])
    assert urdu[0][1] == ("مجھے چائے پسند ہے", "I like tea")


@pytest.mark.parametrize("word", ["दुनिया", "שָׁלוֹם", "می\u200cخواهم", "မြန်မာ"])
def test_a_word_has_its_vowel_signs_and_joiners(monkeypatch, word):
    monkeypatch.setitem(WORDS, word, "world")
    found = made("tags quotes symbols", ("xx", "en"), [(f"{word} .", "world .")], 300)
    for _, (source, target) in found:
        assert source.count(word) == target.count("world") == 1
    assert any(f"<b>{word}</b>" in source for _, (source, _) in found)
    assert find_translations([(f"{word} {x}", f"world {x}") for x in 4 * "abc"])[word] == "world"


def test_words_of_scripts_that_the_text_has_not_are_copied():
    groups = foreign_letters([100 * "Привет", 99_999 * "a" + "好"])
    letters = {letter for group in groups for letter in group}
    assert {"ß", "好", "ب", "한", "ก", "א", "あ", "Ա", "ř", "𐍈"} < letters
    assert not {"a", "П", "ж", "Ё", "\u212a"} & letters  # the last is K in NFC
    assert all(map(str.isalpha, letters))
    assert all(len({letter.encode()[0] for letter in group}) == 1 for group in groups)
    found = [line for _, line in made("symbols", ("ru", "en"), [("Привет!", "Hello!")])]
    for source, target in found:
        assert letters.intersection(source) == letters.intersection(target)
    assert sum(bool(letters.intersection(source)) for source, _ in found) > len(found) / 3
    assert not set("ЖжЫы").intersection("".join(source for source, _ in found))


def test_numbers_change_alike_on_both_sides():
    """As each language writes them; a version, a time and a year stay such; 0 and names stay."""
    amounts, others = set(), set()
    for pair, (source, target) in made("numbers", times=600):
        if pair is PAIRS[1]:
            form = r"In (\d{4}) Mary paid (\S+) for (\S+) apples."
            year, price, count = re.fullmatch(form, source).groups()
            german = [text.translate(SWAPPED) for text in (price, count)]
            assert target == f"Mary zahlte {year} für {german[1]} Äpfel {german[0]}."
            assert 1900 <= int(year) < 2100
            amounts.add(price)
        else:
            form = r"Version (\d\.\d\.\d) \w\w (\d\d:\d\d) ha[st] \{0\} \w+ A4."
            found = [re.fullmatch(form, side).groups() for side in (source, target)]
            assert found[0] == found[1] != ("2.1.3", "10:45")
            others.add(found[0])
    forms = {re.sub(r"\d", "0", price) for price in amounts}
    assert {"0", "0,000", "0,000,000", "00,000.0", "0.0"} < forms and len(others) > 9


def test_a_whole_number_stays_whole():
    """It may be an article of a law or a day."""
    found = made("numbers", ("en", "fr"), [("section 41", "article 41")])
    assert found and all(re.fullmatch(r"article [\d\s]+", target) for _, (_, target) in found)


def test_units_are_those_of_the_target():
    for target, other in (("en", "€"), ("fr", "GB"), ("tr", "%"), ("ru", "km"), ("ar", "km")):
        lines = made("amounts", ("de", target))
        assert lines and not any(other in source for _, (source, _) in lines)
        assert any(other in source for _, (source, _) in made("amounts"))


def test_no_word_is_cut_or_left_with_an_article(monkeypatch):
    monkeypatch.setitem(WORDS, "today", "hui")
    monkeypatch.setitem(WORDS, "problem", "ennui")
    pairs = [("a problem today", "l'ennui d'aujourd'hui")]
    inside = [line for _, line in made("tags placeholders addresses", ("en", "fr"), pairs)]
    assert inside
    assert all("ennui d'aujourd'hui" in target or source == target for source, target in inside)
    whole = ["aujourd'hui", "don't", "об'єкт", "col·lecció", "x", "ami", "Tom", "s"]
    assert augment.WORD.findall("aujourd'hui don't об'єкт col·lecció x l'ami Tom's") == whole
    whole = ["Tom", "dit", "il", "1,250", "1 250", "10:45", "5/6", "1", "25"]
    assert augment.WORD.findall("Tom dit qu'il: 1,250, 1 250; 10:45, 5/6, 1 25") == whole


def test_words_and_numbers_within_chinese_and_japanese():
    """Which have no spaces: 350 books, and Obama between two tags."""
    assert augment.WORD.findall("2010年Obama买了3,500本书。") == ["2010", "Obama", "3,500"]
    assert augment.WORD.findall("サーバーのメモリは64GBです") == ["64GB"]
    lines = {"zh": "2010年Obama买了350本书。", "ja": "2010年にObamaは350冊買った。"}
    for language, line in lines.items():
        given = ("en", language), [("In 2010 Obama bought 350 books.", line)], 300
        numbers = made("numbers", *given)
        assert made("placeholders", *given) and any("350" not in line for _, (_, line) in numbers)
        for _, (source, target) in numbers:
            year, count = re.fullmatch(r"In (\d+) Obama bought (\S+) books\.", source).groups()
            assert target == line.replace("2010", year).replace("350", count)
        assert any("<b>Obama</b>" in target for _, (_, target) in made("tags", *given))


def test_numbers_in_a_language_whose_form_is_not_known_keep_their_form():
    pair = ("ka 1,250.50 lo 1 30", "mi 1,250.50 ru 1 30")  # beside 1 stands a singular
    found = made("numbers", ("xa", "xb"), [pair])
    for _, (source, target) in found:
        assert re.fullmatch(r"ka (\d,\d{3}\.\d\d) lo 1 \d+", source)
        assert re.findall(r"\S*\d", source) == re.findall(r"\S*\d", target)
    assert found
    for pair in (("ka 77 lo", "mi 77 ru 77"), ("5kg, 5 km", "5 kg, 5km"), ("5 cars", "5月 5")):
        assert not made("numbers", pairs=[pair])
    assert made("numbers", pairs=[("7" * 5000, "7" * 5000)])  # Python makes no int of it


def test_numbers_leave_the_words_around_them_right():
    """A noun's form depends on its number: 25 czytelników, 22 czytelnicy; 1,5 litre, 2,5 litres."""
    pair = ("1987: 4,325 users 25 readers", "1987: 4 325 użytkowników 25 czytelników")
    found = {source for _, (source, _) in made("numbers", ("en", "pl"), [pair])}
    assert len(found) > 50
    form = re.compile(r"(19|20)87: [2-9],\d25 users 25 readers")
    assert all(map(form.fullmatch, found))
    for number in ("0", "1", "1.5", "0.25"):
        pair = (f"{number} litres", f"{number} litre".replace(".", ","))
        assert not made("numbers", ("en", "fr"), [pair])
    pair = ("Python 1.5", "Python 1.5")  # no number in French
    assert made("numbers", ("en", "fr"), [pair])


STAY = """en An 8 hour shift.|en It is a 5 % rise.|en An $8 bill.|hu Lásd az 5. fejezetet.
it L'8 maggio siamo partiti.|it Nel 2010, il 8 maggio.|it Storia degli 8 nani.|it da sette ad 8
fi Lämpötila on 15,5:n paikkeilla.|sv den 5:e maj|tr 2010'da geldi.|es siete u 8 días
cs se 102 lidmi|ru со 100 людьми|fr 8000000 d'habitants|en As in ISO-8601.|en A key, ["1234"]."""


@pytest.mark.parametrize("line", re.split(r"[|\n]", STAY))
def test_numbers_stay_that_an_article_or_an_ending_is_about(line):
    """Which depend on how the number is read: an 8, a 9. So do names and code."""
    language, line = line.split(" ", 1)
    number = re.search(r"\d+([.,]\d+)?", line)[0]
    pairs = [(f"Das ist {number} hier.", line)]
    assert not made("numbers", ("de", language), pairs)


def test_quotes_are_those_of_the_language():
    marks = set()
    for _, line in made("quotes"):
        source, target = ("".join(re.findall('["“”‘’„»«]', side)) for side in line)
        marks |= {(source[i : i + 2], target[i : i + 2]) for i in range(0, len(source), 2)}
    english, german = map(set, zip(*marks))
    assert english == {"“”", "‘’", '""'} and german == {"„“", "»«", '""'}
    other = "".join(source for _, (source, _) in made("quotes", ("xx", "en")))
    assert set(re.findall("[\"'“‘„»«]", other)) == {'"', "'"}
    french = made("quotes", ("en", "fr"))
    assert any("« " in target and " »" in target for _, (_, target) in french)


def test_joined_sentences_are_of_one_length_and_have_ends():
    lengths = set()
    for _, (source, target) in made("joined"):
        number = sum(source.count(pair[0]) for pair in PAIRS)
        assert number == sum(target.count(pair[1]) for pair in PAIRS)
        assert len(source) <= augment.LONG
        lengths.add(number)
    assert lengths == {2, 3, 4, 5, 6}
    ends = ("", "!", 99 * " x" + ".")
    pairs = [(f"{n:02}{end}", f"{n:02}, ja.") for end in ends for n in range(10)]
    numbers = set()
    short = (line for pair, line in made("joined", pairs=pairs) if len(pair[0]) < 9)
    for source, target in short:
        found = re.findall(r"(\d\d)!?", source)
        numbers.add(len(found))
        assert found == re.findall(r"(\d\d), ja", target)
        assert source == " ".join(f"{n}!" for n in found) and len(source) < 30
    assert numbers == {2, 3, 4, 5, 6}
    for length, fit in ((100, {2}), (150, set())):
        long = made("joined", pairs=[(f"{n}{length * ' x'}.", "ja.") for n in range(9)], times=9)
        assert {len(re.findall(r"\d", source)) for _, (source, _) in long} == fit
    for fragments in (("यह है", "This is it"), ("نام:", "Name:"), ("Yes.", "Ja"), ("Ja", "Yes.")):
        assert not made("joined", ("xx", "en"), [fragments])
    chinese = made("joined", ("yue", "en"), [("我飲茶。", "I drink tea.")])
    assert {re.sub(r"\S", "", source) for _, (source, _) in chinese} == {""}


def test_words_signs_and_numbers_stand_alone():
    lines = {line for _, line in made("alone", times=200)}
    words = {(s, t) for s, t in lines if s.isalpha()}
    assert words == set(WORDS.items()) and lines & {(f"{s}!", f"{t}!") for s, t in words}
    assert {("?", "?"), ("€", "€")} & lines
    numbers = {(s, t) for s, t in lines if re.match(r"\d+,\d{3}", s)}
    assert numbers and all(t == s.translate(SWAPPED) for s, t in numbers)


ENDS = {"fr": "1. 1 ! 1 ?", "es": "1. ¡1! ¿1?", "el": "1. 1! 1;", "fa": "1. 1! 1؟"}
ENDS |= {"zh_CN": "1。 1！ 1？", "th": "1 1! 1?"}


@pytest.mark.parametrize("language, ends", ENDS.items())
def test_a_word_alone_ends_as_in_its_language(language, ends):
    found = {line for _, line in made("alone", ("en", language), times=200)}
    targets = {source[-1]: target for source, target in found if source[:-1] == "folder"}
    words = [targets[mark].replace("Ordner", "1") for mark in ".!?"]
    assert " ".join(words) == ends


@pytest.mark.parametrize("language, colon", [("fr", " : "), ("zh_CN", "："), ("de", ": ")])
def test_a_head_has_the_colon_of_its_language(language, colon):
    for kind in ("addresses", "amounts"):
        found = made(kind, ("en", language), [("ab", "cd")])
        heads = [line for _, line in found if line[0].startswith("ab: ")]
        assert heads and all(re.match(f"cd{colon}(?! )", target) for _, target in heads)


def test_words_are_translations_if_each_is_the_best_of_the_other():
    nouns = [("cat", "Katze"), ("dog", "Hund"), ("tree", "Baum"), ("sun", "Sonne")]
    pairs = [
        (f"the {a} and the {b}" + more[0], f"die {x} und der {y}" + more[1])
        for more in (("", ""), (" snow leopard", " Schneeleopard"))
        for a, x in nouns
        for b, y in nouns
        if a != b
    ]
    found = find_translations(pairs)
    assert {word: found.get(word) for word, _ in nouns} == dict(nouns)
    several = [word for word, other in found.items() if other == "Schneeleopard"]
    assert several == []  # the best of snow and of leopard
    assert find_translations([("perhaps", f"vielleicht{n % 4}") for n in range(24)]) == {}


def test_prepare_adds_the_lines_behind_the_plain_ones(tmp_path):
    """Off by default; made plain, alike for any number of workers, and of no held-out text."""
    languages = ("en", "de")
    for name, pairs in (("t", pairs_of(150, 1) + 9 * PAIRS), ("v", pairs_of(20, 2))):
        write_pairs(tmp_path, name, languages, pairs)
    base = ("prepare", "-s", "en", "-t", "de", "--trainpref", tmp_path / "t", "--vocab-size", 330)
    base += ("--validpref", tmp_path / "v", "--drop-duplicates", "--max-pieces", 999)
    more = {"plain": (), "one": ("--augment", "--workers", 1), "two": ("--augment", "--workers", 2)}
    found = {}
    for out, options in more.items():
        said = ran(*base, *options, "--out", tmp_path / out).out
        text = tmp_path / out / "text"
        found[out] = read_parallel(text / "train.en", text / "train.de")
        assert read_parallel(text / "valid.en", text / "valid.de") == pairs_of(20, 2)
        assert f"train {len(found[out])}, valid 20 pairs" in said
        assert ("augmented: " in said) == (out != "plain")
    assert len(found["plain"]) == 150 + len(PAIRS)
    assert found["one"] == found["two"] and found["one"][: 150 + len(PAIRS)] == found["plain"]
    assert 0.4 < len(found["one"]) / len(found["plain"]) - 1 < 0.8
    lines = list(chain(*found["one"]))
    assert lines == [nfc(line) for line in lines]
    pieces = Subwords(tmp_path / "one" / "data-bin" / "spm.model").pieces
    letters = set("".join(piece for piece in pieces if not re.match("<", piece)))
    assert letters <= {"▁", *"".join(chain(*found["plain"]))}  # others are spelled in bytes
