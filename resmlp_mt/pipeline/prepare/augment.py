"""Training lines of kinds that users have and corpora lack, made of the lines that there are.

They stand beside the plain ones. What is to be copied stands on both sides: at names that both have
and at words that translate each other, as the corpus itself tells. augment.toml says what, and how
often.
"""

import random
import re
import string
import tomllib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from resmlp_mt.text.lines import read_lines, without_region

TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
TEMPLATES, QUOTES, ALONE = TABLE["templates"], TABLE["quotes"], TABLE["alone"]
FORMATS = {name: tuple(kind) for kind, names in TABLE["numbers"].items() for name in names.split()}
WORD = re.compile(r"\w(?:[\w.-]*\w)?")
NUMBER = re.compile(
    r"(?<![\w.,%{#])(?:[0-9]{1,3}(?: [0-9]{3})+(?:,[0-9]+)?|[0-9]+(?:[.,:/-][0-9]+)*)(?!\w)"
)
CODE = re.compile(r"[%{}<>&\\@_$]|://|[^\W\d]\.[^\W\d]")  # capitals would change its meaning
LEARNT, SEEN, SURE = 100_000, (5, 2000), 0.5  # pairs, lines that have a word, Dice coefficient
LONG = 500  # characters of joined sentences
HOLE = "\0"
Pair = tuple[str, str]
Spot = tuple[tuple[int, int], tuple[int, int]]  # start and end, on both sides, of the same


def augment(
    files: Sequence[Path], languages: Pair, plain: Sequence[Callable], pairs: int, seed: int
) -> dict[str, int]:
    """Append further lines to both *files*, of so many *pairs*, made *plain* as the others are.
    Returns their number by kind."""
    added: Counter[str] = Counter()
    sample = islice(zip(*map(read_lines, files)), 0, pairs, max(1, pairs // LEARNT))
    augmenter = Augmenter(languages, find_translations(sample), seed)
    with open(files[0], "ab") as first, open(files[1], "ab") as second:
        for pair in islice(zip(*map(read_lines, files)), pairs):
            for kind, made in augmenter(pair):
                source, target = (make(side) for make, side in zip(plain, made))
                if source and target:
                    first.write(source.encode() + b"\n")
                    second.write(target.encode() + b"\n")
                    added[kind] += 1
    return dict(added)


def find_translations(pairs: Iterable[Pair]) -> dict[str, str]:
    """Words that are each other's best translation by the Dice coefficient of their lines."""
    lines = [[set(WORD.findall(side)) for side in pair] for pair in pairs]
    counts = [Counter(word for line in side for word in line) for side in zip(*lines)]
    words = [sorted(w for w, n in c.items() if SEEN[0] <= n <= SEEN[1]) for c in counts]
    if not all(words):
        return {}
    numbers = [{word: number for number, word in enumerate(side)} for side in words]
    together = []
    for line in lines:
        found = ([n[w] for w in side if w in n] for n, side in zip(numbers, line))
        first, second = (np.array(some, np.int64) for some in found)
        together.append(np.add.outer(first * len(words[1]), second).ravel())
    both, times = np.unique(np.concatenate(together), return_counts=True)
    source, target = np.divmod(both, len(words[1]))
    first, second = (np.array([c[w] for w in side]) for c, side in zip(counts, words))
    dice = 2 * times / (first[source] + second[target])
    order = np.argsort(dice, kind="stable")
    order = order[dice[order] >= SURE]
    best, back = dict(zip(source[order], target[order])), dict(zip(target[order], source[order]))
    return {words[0][s]: words[1][t] for s, t in best.items() if back[t] == s}


def titled(text: str, least: int) -> str:
    """With a capital at the first word, and at each of at least so many letters."""
    words = enumerate(text.split(" "))
    return " ".join(w[:1].upper() + w[1:] if len(w) >= least or not n else w for n, w in words)


def read_number(text: str, language: str) -> tuple[str, str] | None:
    """What is before the decimal point and after it; None for what is no number, such as 1.2.3."""
    group, point = FORMATS.get(language, ("", "."))
    whole, _, decimals = text.replace(group, "").partition(point)
    if not (whole + decimals).isdigit():
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

    def __init__(self, languages: Pair, translations: dict[str, str], seed: int):
        self.languages = [without_region(language) for language in languages]
        self.draw, self.translations = random.Random(seed), list(translations.items())
        self.other = translations
        self.words = [w.lower() for w in translations if w.isascii() and w.isalpha()]
        self.before: deque[Pair] = deque(maxlen=5)  # the present pair is the last

    def __call__(self, pair: Pair) -> Iterator[tuple[str, Pair]]:
        self.before.append(pair)
        for kind, share in TABLE["shares"].items():
            if self.draw.random() < share:
                made = getattr(self, f"make_{kind}")(pair)
                if made and made != pair:
                    yield kind, made

    def make_capitals(self, pair: Pair) -> Pair | None:
        if any(map(CODE.search, pair)) or pair[0].isupper():
            return None
        sides = zip(pair, self.languages)
        first, second = (x.replace("i", "İ") if y in ("tr", "az") else x for x, y in sides)
        return first.upper(), second.upper()

    def make_title(self, pair: Pair) -> Pair | None:
        """English alone writes its titles so: other languages translate them as a sentence."""
        if any(map(CODE.search, pair)):
            return None
        least = self.draw.choice((1, 4))  # letters of a word that gets a capital

        first, second = (re.sub(r"(?<=.)[.。।]$", "", side) for side in pair)
        return titled(first, least), titled(second, least) if self.languages[1] == "en" else second

    def make_no_final_point(self, pair: Pair) -> Pair | None:
        first, second = (re.sub(r"(?<=\w)[.。।]$", "", side) for side in pair)
        return (first, second) if first != pair[0] and second != pair[1] else None

    def make_tags(self, pair: Pair) -> Pair | None:
        spots = self.spots(pair) if self.draw.random() < 0.75 else []
        return self.put(pair, spots, partial(self.filled, "tags" if spots else "blocks"))

    def make_placeholders(self, pair: Pair) -> Pair | None:
        spots = self.spots(pair)
        return self.put(pair, spots, partial(self.filled, "placeholders")) if spots else None

    def make_addresses(self, pair: Pair) -> Pair | None:
        spots = self.spots(pair)[:1] if self.draw.random() < 0.5 else []
        if spots:
            return self.put(pair, spots, partial(self.filled, "addresses"))
        whole = self.make_no_final_point(pair) or pair
        return self.put(whole, [], partial(self.filled, "with_address"))

    def make_quotes(self, pair: Pair) -> Pair | None:
        style = self.draw.choice((0, 1, 2))
        own = (('"X"', *QUOTES.get(each, QUOTES["other"]))[style] for each in self.languages)
        first, second = (each.replace("X", HOLE) for each in own)
        spots = self.spots(pair)[:1] if self.draw.random() < 0.7 else []
        return self.put(pair, spots, lambda: (first, second))

    def make_symbols(self, pair: Pair) -> Pair | None:
        first, last = map(ord, self.draw.choice(ALONE["symbols"]))
        times = self.draw.choice((1, 1, 3))
        symbol = "".join(chr(self.draw.randint(first, last)) for _ in range(times))
        new = self.draw.choice((f"{HOLE} {symbol}", f"{HOLE}{symbol}", f"{symbol} {HOLE}"))
        spots = self.spots(pair)[:1] if self.draw.random() < 0.5 else []
        return self.put(pair, spots, lambda: (new, new))

    def make_amounts(self, pair: Pair) -> Pair | None:
        """A number beside a word, or around the sentence."""
        first, second = self.amount()
        form = self.draw.choice(("{0} ({1})", "{0} {1}", "{1} {0}", "{0}: {1}", "({1}) {0}"))
        new = form.format(HOLE, first), form.format(HOLE, second)
        return self.put(pair, self.spots(pair)[:1], lambda: new)

    def make_joined(self, pair: Pair) -> Pair | None:
        few = list(self.before)[-self.draw.choice((2, 2, 2, 3, 4, 5)) :]
        while few and sum(max(map(len, each)) for each in few) > LONG:
            del few[0]
        if len(few) < 2:
            return None
        spaces = ("" if language in ("zh", "ja") else " " for language in self.languages)
        first, second = (space.join(side) for space, side in zip(spaces, zip(*few)))
        return first, second

    def make_alone(self, pair: Pair) -> Pair | None:
        """A word, a sign, or a number."""
        kind = self.draw.random()
        if kind < 0.5 and self.translations:
            end = self.draw.choice(("", "", "", ".", "!", "?", ":"))
            first, second = self.draw.choice(self.translations)
            return first + end, second + end
        if kind < 0.65:
            sign = self.draw.choice(ALONE["signs"].split())
            return sign, sign
        return self.amount()

    def make_numbers(self, pair: Pair) -> Pair | None:
        """Numbers of both sides changed alike: other digits in their places, or another number as
        each language writes it."""
        found = [NUMBER.findall(side) for side in pair]
        times = [Counter(map(digits_of, side)) for side in found]
        amounts: dict[str, Pair] = {}
        other: dict[str, str] = {}
        for digits in times[0]:
            if times[0][digits] != times[1][digits] or digits in ("0", "1"):
                continue  # 1 has a singular beside it
            first, second = (next(n for n in side if digits_of(n) == digits) for side in found)
            read = [read_number(*each) for each in zip((first, second), self.languages)]
            year = re.fullmatch("1[5-9]..|20..", digits)
            if read[0] and read[0] == read[1] and not year and self.draw.random() < 0.6:
                amounts[digits] = self.amount(units=[""])
            else:
                start = self.draw.choice(("19", "20") if year else "123456789")
                rest = self.draw.choices(string.digits, k=len(digits) - len(start))
                other[digits] = start + "".join(rest)

        def changed(match: re.Match, side: int) -> str:
            if digits_of(match[0]) in amounts:
                return amounts[digits_of(match[0])][side]
            digits = iter(other.get(digits_of(match[0]), digits_of(match[0])))
            return re.sub("[0-9]", lambda _: next(digits), match[0])

        first, second = (NUMBER.sub(partial(changed, side=i), pair[i]) for i in (0, 1))
        return first, second

    def amount(self, units: Sequence[str] = ()) -> Pair:
        """A number with a unit, or without, as each language writes it."""
        draw = self.draw
        length = draw.choice((1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9))
        whole = str(draw.randrange(10 ** (length - 1), 10**length))
        if draw.random() < 0.2:
            whole = f"{draw.randrange(1, 1000)}{draw.choice(('000', '000000'))}"
        decimals = "".join(draw.choices(string.digits, k=draw.choice((0, 0, 0, 1, 2, 2, 3))))
        if any(language not in FORMATS for language in self.languages):
            decimals = ""
        grouped = draw.random() < 0.8
        unit = draw.choice(units or ["", "", "", *ALONE["units"].split()])
        unit = draw.choice(("", " ")) * bool(unit) + unit
        first, second = (
            write_number(whole, decimals, each, grouped) + unit for each in self.languages
        )
        return first, second

    def spots(self, pair: Pair) -> list[Spot]:
        """One or two words by chance that stand once on each side, if there are any."""
        words: list[dict[str, tuple[int, int]]] = []
        for side in pair:
            found = [(match[0], match.span()) for match in WORD.finditer(side)]
            often = Counter(word for word, _ in found)
            words.append({word: span for word, span in found if often[word] == 1})
        same = ((w, self.other.get(w, "" if w.islower() else w)) for w in words[0])
        spots = [(words[0][w], words[1][other]) for w, other in same if other in words[1]]
        return self.draw.sample(spots, min(len(spots), self.draw.choice((1, 1, 2))))

    def put(self, pair: Pair, spots: Sequence[Spot], new: Callable[[], Pair]) -> Pair:
        """*pair* with something new at each spot, or around all of it if there is none. A hole in
        it takes the text that was there."""
        spots = spots or [((0, len(pair[0])), (0, len(pair[1])))]
        news, sides = [new() for _ in spots], list(pair)
        for i in (0, 1):
            at = sorted(((spot[i], each[i]) for spot, each in zip(spots, news)), reverse=True)
            for (start, end), text in at:
                text = text.replace(HOLE, sides[i][start:end])
                sides[i] = sides[i][:start] + text + sides[i][end:]
        return sides[0], sides[1]

    def filled(self, name: str) -> Pair:
        """A template of a kind, the same for both sides."""
        fixed = {"W": self.word(), "N": str(self.draw.randrange(10)), "X": HOLE}

        def fill(match: re.Match) -> str:
            letter = match[0]
            if letter == "A":
                return self.filled("addresses")[0]
            if letter in "DE":
                return self.draw.choice(TEMPLATES[letter])
            return fixed.get(letter) or self.word()

        text = re.sub("[XWVNADE]", fill, self.draw.choice(TEMPLATES[name]))
        return text, text

    def word(self) -> str:
        """Half of them from the text, the others of letters by chance."""
        word = "".join(self.draw.choices(string.ascii_lowercase, k=self.draw.randint(2, 8)))
        if self.words and self.draw.random() < 0.5:
            word = self.draw.choice(self.words)
        return self.draw.choice((word, word, word, word, word.capitalize(), word.upper()))
