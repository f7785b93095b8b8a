"""The quickstart's grammar: right German, no sentence in two splits."""

import random

import grammar
import pytest

# phrases with every gender, number, case and kind of determiner
PHRASES = {
    "the old man": ["der alte Mann", "den alten Mann", "dem alten Mann"],
    "an old queen": ["eine alte Königin", "eine alte Königin", "einer alten Königin"],
    "my small child": ["mein kleines Kind", "mein kleines Kind", "meinem kleinen Kind"],
    "every strange king": [
        "jeder seltsame König",
        "jeden seltsamen König",
        "jedem seltsamen König",
    ],
    "these new guests": ["diese neuen Gäste", "diese neuen Gäste", "diesen neuen Gästen"],
    "my aunts": ["meine Tanten", "meine Tanten", "meinen Tanten"],
}
SENTENCES = {
    "Because this aunt found these doors, the young teacher slept.": (
        "Weil diese Tante diese Türen fand, schlief der junge Lehrer."
    ),
    "Every famous son brings a bed while this king calls a daughter.": (
        "Jeder berühmte Sohn bringt ein Bett mit, während dieser König eine Tochter anruft."
    ),
    "Now the old king must bring the newspaper.": (
        "Jetzt muss der alte König die Zeitung mitbringen."
    ),
    "My big doctors have invited this famous girl while every aunt has danced in the wonderful "
    "kitchen.": (
        "Meine großen Ärzte haben dieses berühmte Mädchen eingeladen, während jede Tante in der "
        "wunderbaren Küche getanzt hat."
    ),
}


@pytest.fixture(scope="module")
def corpus():
    return grammar.generate(1, {"test": 500, "train": 3000})


def test_phrases():
    rng, found = random.Random(1), {}
    for _ in range(100_000):
        phrase = grammar.phrase(rng, "persons")
        if phrase.en in PHRASES:
            found[phrase.en] = phrase.de
    assert found == PHRASES


def test_sentences():
    rng = random.Random(1)
    found = dict(grammar.sentence(rng) for _ in range(400))
    assert {en: found.get(en) for en in SENTENCES} == SENTENCES


def test_separable_verbs(corpus):
    """The particle ends a main clause and is one word with the verb where that comes last."""
    german = " ".join(de for _, de in corpus["train"])
    for word in (" ein.", "einlädt", "eingeladen", "einladen", " an.", "anruft"):
        assert word in german


def test_each_sentence_stands_once(corpus):
    assert corpus == grammar.generate(1, {"test": 500, "train": 3000})
    pairs = corpus["test"] + corpus["train"]
    assert len(pairs) == 3500
    assert len({en for en, _ in pairs}) == len({de for _, de in pairs}) == 3500
