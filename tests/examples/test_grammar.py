"""The quickstart's grammar: right German, no sentence in two splits."""

import random

import grammar

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


def test_sentences():
    rng = random.Random(1)
    found = dict(grammar.sentence(rng) for _ in range(400))
    assert {en: found.get(en) for en in SENTENCES} == SENTENCES


def test_each_sentence_stands_once():
    corpus = grammar.generate(1, {"test": 500, "train": 3000})
    assert corpus == grammar.generate(1, {"test": 500, "train": 3000})
    pairs = corpus["test"] + corpus["train"]
    assert len({en for en, _ in pairs}) == len({de for _, de in pairs}) == len(pairs) == 3500
