"""A tiny parallel corpus and two small trained models, made once for all command-line tests."""

import random
from types import SimpleNamespace

import pytest
from fairseq_programs import preprocess, train

VOCABULARY = [f"w{i:02d}" for i in range(40)]
SIZES = {"train": 61, "valid": 13, "test": 11}  # none is a multiple of 8


def write_corpus(folder):
    """Each target is its source reversed, with the next word for each word."""
    generator = random.Random(0)
    for split, size in SIZES.items():
        sources = [
            [generator.choice(VOCABULARY) for _ in range(generator.randint(1, 9))]
            for _ in range(size)
        ]
        targets = [
            [VOCABULARY[(VOCABULARY.index(word) + 1) % 40] for word in reversed(source)]
            for source in sources
        ]
        for language, sentences in (("xx", sources), ("yy", targets)):
            text = "".join(" ".join(words) + "\n" for words in sentences)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """``text``: folder of raw text; ``data``: the binarized corpus with one dictionary."""
    text, data = tmp_path_factory.mktemp("text"), tmp_path_factory.mktemp("data") / "bin"
    write_corpus(text)
    preprocess(data, **{split: text / split for split in SIZES})
    return SimpleNamespace(text=text, data=data, sizes=SIZES)


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """A small model trained on subwords: see :mod:`small_world`."""
    from small_world import make  # which takes its text from here

    return make(tmp_path_factory.mktemp("world") / "made")


def _trained(corpus, folder, seed):
    result = train(
        corpus.data,
        folder,
        *("--batch-size", 8, "--max-epoch", 12, "--save-interval", 12, "--seed", seed),
    )
    return SimpleNamespace(
        folder=folder, path=folder / "checkpoint_last.pt", log=result.log, data=corpus.data
    )


@pytest.fixture(scope="session")
def trained(corpus, tmp_path_factory):
    """A small trained model: ``folder``, ``path``, ``log`` and the ``data`` it was trained on."""
    return _trained(corpus, tmp_path_factory.mktemp("trained"), 1)


@pytest.fixture(scope="session")
def trained2(corpus, tmp_path_factory):
    """The same, from another seed."""
    return _trained(corpus, tmp_path_factory.mktemp("trained2"), 2)
