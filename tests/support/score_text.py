"""Made-up sentences for the tests of scores, and translations of them that are better or worse."""

import random

# what tokenizers differ about, and plain words enough for two sentences to have little in common
WORDS = ["Rich-text-Format", "U-Bahn-Linie", "12-jährige", "CO2-neutral", "A-B", "arrive-t-il"]
WORDS += ["„gut“", "geht’s", "l'heure", "Nr.", "z.", "3,5", "1.234", "%", "&", "(oder)", "sagte:"]
WORDS += [
    stem + end
    for stem in ("Berg", "Fluß", "Wald", "Stadt", "Jahr", "Éclair", "über", "neu", "fahr", "sing")
    for end in ("", "e", "en", "er", "es", "chen", "ung", "lich")
]


def sentences(count=300, seed=1):
    """Lines of 1 to 25 words with quotes, hyphens, abbreviations and numbers in them."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 25))) + " ." for _ in range(count)]


def drop_words(lines, count=1, seed=2):
    """*count* words fewer in each line, drawn at random; none is left without any."""
    draw = random.Random(seed)
    dropped = []
    for words in map(str.split, lines):
        for _ in range(min(count, len(words) - 1)):
            del words[draw.randrange(len(words))]
        dropped.append(" ".join(words))
    return dropped
