"""Training lines of kinds that users have and corpora lack, made from existing lines.

They are added to the plain ones. Text to copy goes into both sides at one place: at a name that
both have, or at words that translate each other in this corpus. augment.toml says what, and how
often.
"""

import random
import string
import tomllib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from unicodedata import is_normalized

import numpy as np
import regex as re  # whose \w has vowel signs, niqqud and the joiners of Persian

from resmlp_mt_runtime.capitals import capitalized, upper
from resmlp_mt_runtime.languages import two_letters
from resmlp_mt_runtime.lines import read_lines
from resmlp_mt_runtime.sentences import join

TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
LETTERS = TABLE["letters"]
# by language; a row of the table may be that of several
QUOTES, ENDS, FORMATS, OTHER_UNITS = (
    {name: row for names, row in TABLE[kind].items() for name in names.split()}
    for kind in ("marks", "ends", "formats", "other_units")
)
# scripts that have no spaces to tell where a word ends
UNSPACED = r"\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}"
LETTER = rf"[^\W{UNSPACED}]"
# with the apostrophe of aujourd'hui, don't and об'єкт, not after l' and qu' or before 's; qu' is
# no word, and a number is one: 1,250 and 1 250, 10:45
WORD = re.compile(
    rf"{LETTER}++(?:(?:[.-]++|(?<=\d)(?:[,:/]| (?=\d{{3}}\b))(?=\d)"
    rf"|(?<!\b(?:[cdjlmnst]|qu))['’](?!s\b)|[·״]){LETTER}++)*+(?!['’](?!s\b)\w)",
    re.IGNORECASE,
)
# words whose form depends on how a number is read: an 8, gli 8, az 5, 7 u 8, ad 8, se 100, со 100
ARTICLE = r"(?i:[aeo]d|[ksvz][eo]|ku|we|[вкс]о|зі|"
ARTICLE += r"an?|az|o|u(?=\s(?:8|11))|il|al|[dn]el|[ds]al|sul|(?:a|da|de|ne|su)i|\w{0,3}gli)"
NUMBER = re.compile(
    rf"(?<=(?:^|[\s({UNSPACED}])[$€£]?)(?<!\b{ARTICLE}\s[$€£]?)"  # not ISO-8601, l'8
    r"(?:[0-9]{1,3}(?: [0-9]{3})++(?:,[0-9]+)?+|[0-9]++(?:[.,:/-][0-9]+)*+)"
    rf"(?!{LETTER}|[:'’-]\p{{Ll}})"  # not 5:e
)
SLOT = re.compile("([XQWVNASFDEMTPGH])")  # of a template
ENDED = re.compile(r"[\p{Sentence_Terminal}…][\p{Pe}\p{Pf}\"']*$")
# tags, placeholders, addresses and the like, whose meaning capitals would change
CODE = re.compile(r"[%{}<>&\\@_$]|://|[^\W\d]\.[^\W\d]")
SPACED_CODE = re.compile(r"<[^<>]+>|\{[^{}]+\}|%\([^()]+\)")
UNDIVIDED = re.compile(rf"[^\s{UNSPACED}]+")
LEARNT, SEEN, SURE = 100_000, (5, 2000), 0.5  # pairs, lines that have a word, Dice coefficient
CLEAR = 0.7  # of a word's best coefficient, that its second stays below: mot de passe is not a word
LONG = 500  # characters of joined sentences
RARE = 1e-4  # share of the text's characters, of a script that counts as foreign to it
HOLE = "\0"
Pair = tuple[str, str]
Spot = tuple[tuple[int, int], tuple[int, int]]  # start and end, on both sides, of the same


def augment(files: Sequence[Path], languages: Pair, plain: Callable, pairs: int) -> dict[str, int]:
    """Append lines, normalized by *plain*, to both *files* of *pairs* pairs; returns how many it
    added, by kind."""
    added: Counter[str] = Counter()
    sample = [*islice(zip(*map(read_lines, files)), 0, pairs, max(1, pairs // LEARNT))]
    augmenter = Augmenter(languages, find_translations(sample), chain(*sample))
    with open(files[0], "ab") as first, open(files[1], "ab") as second:
        for pair in islice(zip(*map(read_lines, files)), pairs):
            for kind, made in augmenter(pair):
                source, target = map(plain, made)
                if source and target:
                    first.write(source.encode() + b"\n")
                    second.write(target.encode() + b"\n")
                    added[kind] += 1
    return dict(added)


def find_translations(pairs: Iterable[Pair]) -> dict[str, str]:
    """Words that are each other's best translation by the Dice coefficient of their lines."""
    lines = [(set(WORD.findall(source)), set(WORD.findall(target))) for source, target in pairs]
    sources, in_source = _frequent(source for source, _ in lines)
    targets, in_target = _frequent(target for _, target in lines)
    if not sources or not targets:
        return {}
    source_numbers = {word: number for number, word in enumerate(sources)}
    target_numbers = {word: number for number, word in enumerate(targets)}
    together = []  # pairs of words that share a line, as source * len(targets) + target
    for source, target in lines:
        first = np.array([source_numbers[w] for w in source if w in source_numbers], np.int64)
        second = np.array([target_numbers[w] for w in target if w in target_numbers], np.int64)
        together.append(np.add.outer(first * len(targets), second).ravel())
    both, times = np.unique(np.concatenate(together), return_counts=True)
    first, second = np.divmod(both, len(targets))
    dice = 2 * times / (in_source[first] + in_target[second])
    chosen = dice >= SURE
    for word, words in ((first, sources), (second, targets)):
        best = np.zeros(len(words))
        np.maximum.at(best, word, dice)
        near = np.bincount(word[dice >= CLEAR * best[word]], minlength=len(words))
        chosen &= (dice == best[word]) & (near[word] == 1)
    return {sources[s]: targets[t] for s, t in zip(first[chosen], second[chosen])}


def _frequent(lines: Iterable[set[str]]) -> tuple[list[str], np.ndarray]:
    """The words that enough lines have, but not too many, and how many have each."""
    counts = Counter(word for line in lines for word in line)
    words = sorted(word for word, count in counts.items() if SEEN[0] <= count <= SEEN[1])
    return words, np.array([counts[word] for word in words])


def foreign_letters(text: Iterable[str]) -> list[list[str]]:
    """Letters of all scripts that are rare in the *text*, by Unicode's blocks of 64. A list holds
    those with one first byte in UTF-8, so that CJK does not outweigh all others."""
    blocks = Counter(ord(character) >> 6 for line in text for character in line)
    found, most = dict[int, list[str]](), RARE * blocks.total()
    for code in range(0xC0, 0x30000):
        letter, rare = chr(code), blocks[code >> 6] <= most
        if rare and letter.isalpha() and is_normalized("NFC", letter):
            found.setdefault(letter.encode()[0], []).append(letter)
    return list(found.values())


def code_in(side: str) -> list[tuple[int, int]]:
    """Where nothing may be inserted: in code, and in a word that touches it."""
    if not CODE.search(side):
        return []
    parts = chain(SPACED_CODE.finditer(side), UNDIVIDED.finditer(side))
    return [part.span() for part in parts if CODE.search(part[0])]


def has_cases(pair: Pair) -> bool:
    """Whether case may change: no code, a source with small letters and none without case."""
    cased = pair[0] != pair[0].upper() and not re.search(r"\p{Lo}|\p{Georgian}", pair[0])
    return cased and not any(map(CODE.search, pair))


def titled(text: str, language: str, least: int) -> str:
    """Capitalize the first word and all words of *least* letters or more, except iPhone and mL."""
    words = [(w, capitalized(w, language) if w.islower() else w) for w in text.split(" ")]
    return " ".join(new if len(w) >= least or not n else w for n, (w, new) in enumerate(words))


def read_number(text: str, language: str) -> tuple[str, str] | None:
    """What is before the decimal point and after it; None for 1.2.3 or a hundred digits."""
    group, point = FORMATS.get(language, ("", "."))
    whole, _, decimals = text.replace(group, "").partition(point)
    if not (whole + decimals).isdigit() or len(text) > 99:
        return None
    written = {write_number(whole, decimals, language, grouped) for grouped in (True, False)}
    return (whole, decimals) if text in written else None


def write_number(whole: str, decimals: str, language: str, grouped: bool) -> str:
    group, point = FORMATS.get(language, ("", "."))
    if grouped:
        whole = f"{int(whole):,}".replace(",", group)
    return f"{whole}{point}{decimals}" if decimals else whole


def digits_of(text: str) -> str:
    return re.sub("[^0-9]", "", text)


class Augmenter:
    """Yields the kind and the lines of what is made of each pair that it is called with."""

    def __init__(self, languages: Pair, translations: dict[str, str], text: Iterable[str]):
        self.languages = list(map(two_letters, languages))
        self.draw, self.translations = random.Random(1), translations
        self.translated = list(translations.items())
        self.words = [w.lower() for w in translations if w.isascii() and w.isalpha()]
        self.foreign = foreign_letters(text)
        other = OTHER_UNITS.get(self.languages[1], "").split()
        self.units = [unit for unit in LETTERS["units"] if unit not in other]
        self.two_forms = set(self.languages) <= set(TABLE["two_forms"]["languages"].split())
        self.before: deque[Pair] = deque(maxlen=30)  # the present pair is the last

    def __call__(self, pair: Pair) -> Iterator[tuple[str, Pair]]:
        self.before.append(pair)
        for kind, share in TABLE["shares"].items():
            if self.draw.random() >= share:
                continue
            made = self.around(pair, **TABLE[kind]) if kind in TABLE else getattr(self, kind)(pair)
            if made and made != pair:
                yield kind, made

    def capitals(self, pair: Pair) -> Pair | None:
        first, second = map(upper, pair, self.languages)
        return (first, second) if has_cases(pair) else None

    def title(self, pair: Pair) -> Pair | None:
        """English alone writes its titles so: other languages translate them as a sentence."""
        if not has_cases(pair):
            return None
        first, second = self.no_final_point(pair) or pair
        least = self.draw.choice((1, 4))  # letters of a word that gets a capital
        title = titled(first, self.languages[0], least)
        return title, titled(second, "en", least) if self.languages[1] == "en" else second

    def no_final_point(self, pair: Pair) -> Pair | None:
        # of a word, not of p.m. or an ellipsis
        first, second = (re.sub(r"(?<=\w\w)[.。।۔]$", "", side) for side in pair)
        return (first, second) if first != pair[0] and second != pair[1] else None

    def joined(self, pair: Pair) -> Pair | None:
        """Sentences of about one length, so that lines of many short ones are learnt, too."""
        ended = [each for each in self.before if all(map(ENDED.search, each))]
        ended.sort(key=lambda each: abs(len(each[0]) - len(pair[0])))
        few = ended[: self.draw.choice((2, 2, 3, 4, 5, 6))]
        while few and sum(max(map(len, each)) for each in few) > LONG:
            few.pop()
        if len(few) < 2:
            return None
        first, second = map(join, zip(*few))
        return first, second

    def numbers(self, pair: Pair) -> Pair | None:
        """Numbers of both sides changed alike: other digits in their places, or another number as
        each language writes it. The words around it have to stay right (CLDR's plural rules)."""
        found = [NUMBER.findall(side) for side in pair]
        times = [Counter(map(digits_of, side)) for side in found]
        kept = {digits for side in pair for digits in re.findall("[0-9]+", NUMBER.sub(" ", side))}
        new: dict[str, Pair | str] = {}
        for digits in times[0]:
            stays = "" if self.two_forms else digits[-2:]  # which tell the form of the noun
            # what stays in 5kg is not changed in 5 km
            if times[0][digits] != times[1][digits] or digits in {stays, *kept}:
                continue
            literals = (next(n for n in side if digits_of(n) == digits) for side in found)
            first, second = map(read_number, literals, self.languages)
            known = first if first == second else None
            if known and (known[0] in ("0", "1") or known[0].endswith("000000")):
                continue  # a singular may stand beside it, or the "de" of millions
            year = re.fullmatch("1[5-9]..|20..", digits)
            if self.two_forms and known and not year and self.draw.random() < 0.6:
                new[digits] = self.amount("", bool(known[1]))
            else:
                start = self.draw.choice(("19", "20") if year else "23456789")
                rest = self.draw.choices(string.digits, k=len(digits) - len(start) - len(stays))
                new[digits] = start + "".join(rest) + stays

        def changed(match: re.Match, side: int) -> str:
            number = new.get(digits_of(match[0]), digits_of(match[0]))
            if isinstance(number, tuple):
                return number[side]
            digits = iter(number)
            return re.sub("[0-9]", lambda _: next(digits), match[0])

        first, second = (NUMBER.sub(partial(changed, side=i), pair[i]) for i in (0, 1))
        return first, second

    def around(self, pair: Pair, word: Sequence[str] = (), line: Sequence[str] = ()) -> Pair | None:
        """*pair* with a template filled at one or two words, or at all of the line."""
        spots = self.spots(pair) if word and (not line or self.draw.random() < 0.7) else []
        if not (spots or line):
            return None
        templates = word if spots else line
        spots = spots or [((0, len(pair[0])), (0, len(pair[1])))]
        news = [self.filled(self.draw.choice(templates)) for _ in spots]
        sides = list(pair)
        for i in (0, 1):
            at = sorted(((spot[i], new[i]) for spot, new in zip(spots, news)), reverse=True)
            for (start, end), new in at:
                new = new.replace(HOLE, sides[i][start:end])
                sides[i] = sides[i][:start] + new + sides[i][end:]
        return sides[0], sides[1]

    def spots(self, pair: Pair) -> list[Spot]:
        """One or two random words that occur once on each side, if there are any."""
        words: list[dict[str, tuple[int, int]]] = []
        for side in pair:
            found = [(match[0], match.span()) for match in WORD.finditer(side)]
            often = Counter(word for word, _ in found)
            coded = code_in(side)
            # not after l', d' ..., which another word would not have
            words.append(
                {
                    w: (start, end)
                    for w, (start, end) in found
                    if often[w] == 1
                    and not side[:start].endswith(("'", "’"))
                    and not any(begin < end and start < stop for begin, stop in coded)
                }
            )
        same = ((w, self.translations.get(w, "" if w.islower() else w)) for w in words[0])
        # of two words with one translation the last
        at = {words[1][other]: words[0][w] for w, other in same if other in words[1]}
        spots = [(first, second) for second, first in at.items()]
        return self.draw.sample(spots, min(len(spots), self.draw.choice((1, 1, 2))))

    def filled(self, template: str) -> Pair:
        """The letters of a template replaced, on both sides alike."""
        fixed = {"X": HOLE, "W": self.word(), "N": str(self.draw.randrange(10))}
        own = [ENDS.get(each, ENDS["en"]) for each in self.languages]

        def fill(letter: str) -> str | Sequence[str]:
            if letter == "Q":
                style = self.draw.choice((0, 1))
                quotes = (QUOTES.get(each, ['"X"', "'X'"])[style] for each in self.languages)
                return [marks.replace("X", HOLE) for marks in quotes]
            if letter == "M":
                return self.amount(self.draw.choice(["", "", *self.units]))
            if letter == "T" and self.translated:
                return self.draw.choice(self.translated)
            if letter == "P" and self.translated:
                words, kind = self.draw.choice(self.translated), self.draw.randrange(4)
                return [ends[kind].replace("X", word) for ends, word in zip(own, words)]
            if letter == "H":
                colons = (ends[3].replace("X", "") for ends in own)
                return [colon if colon == "：" else f"{colon} " for colon in colons]
            if letter == "F":
                letters = self.draw.choice(self.foreign)
                return "".join(self.draw.choices(letters, k=self.draw.randint(1, 6)))
            if letter == "S":
                return chr(self.draw.randint(*map(ord, self.draw.choice(LETTERS["S"]))))
            if letter in LETTERS:
                return self.filled(self.draw.choice(LETTERS[letter]))
            return fixed.get(letter) or self.word()

        first = second = ""
        for part in SLOT.split(template):
            made = fill(part) if SLOT.fullmatch(part) else part
            on_first, on_second = (made, made) if isinstance(made, str) else made
            first, second = first + on_first, second + on_second
        return first, second

    def amount(self, unit: str, decimals: bool = True) -> Pair:
        """A number with a *unit* as each language writes it."""
        draw = self.draw
        length = draw.choice((1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9))
        whole = str(draw.randrange(max(2, 10 ** (length - 1)), 10**length))  # 1 has a singular
        if draw.random() < 0.2:
            # Spanish, French and others put "de" between millions and a noun
            zeros = draw.choice(("000", "000000" if unit else "000"))
            whole = f"{draw.randrange(1, 1000)}{zeros}"
        places = draw.choice((0, 0, 0, 1, 2, 2, 3))
        if not decimals or any(language not in FORMATS for language in self.languages):
            places = 0
        fraction = "".join(draw.choices(string.digits, k=places))
        space = draw.choice(("", " "))
        end = space + unit if unit else ""
        write = partial(write_number, whole, fraction, grouped=draw.random() < 0.8)
        return write(self.languages[0]) + end, write(self.languages[1]) + end

    def word(self) -> str:
        """A word of the text or, as often, one of random letters."""
        word = "".join(self.draw.choices(string.ascii_lowercase, k=self.draw.randint(2, 8)))
        if self.words and self.draw.random() < 0.5:
            word = self.draw.choice(self.words)
        return self.draw.choice((word, word, word, word, word.capitalize(), word.upper()))
