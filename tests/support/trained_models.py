"""Tiny parallel corpora and small trained models, made once for all tests."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from fairseq_programs import LAST, preprocess, train

from resmlp_mt.text import TextSettings, train_subwords
from resmlp_mt_runtime.pieces import NFC, Subwords

EPOCHS = 4  # of the world
SIZES = {"train": 61, "valid": 13, "test": 11}  # none is a multiple of 8


class World(NamedTuple):
    text: Path  # folder with train.xx, train.yy ...
    data: Path  # the same in subwords, as binary data with one dictionary
    spm: Path
    checkpoint: Path  # trained on it for some updates


def write_corpus(folder, sizes=SIZES):
    """Each target is its source reversed, with the next word for each word."""
    generator = random.Random(0)
    for split, size in sizes.items():
        sources = [
            [generator.randrange(40) for _ in range(generator.randint(1, 9))] for _ in range(size)
        ]
        targets = [[(word + 1) % 40 for word in reversed(source)] for source in sources]
        for language, sentences in (("xx", sources), ("yy", targets)):
            text = "".join(" ".join(f"w{i:02d}" for i in words) + "\n" for words in sentences)
            (folder / f"{split}.{language}").write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def corpus(shared):
    """``text``: folder of raw text; ``data``: the binarized corpus with one dictionary."""

    def make(folder):
        (folder / "text").mkdir()
        write_corpus(folder / "text")
        preprocess(folder / "bin", **{split: folder / "text" / split for split in SIZES})

    folder = shared("corpus", make)
    return SimpleNamespace(text=folder / "text", data=folder / "bin", sizes=SIZES)


@pytest.fixture(scope="session")
def trained(corpus, shared):
    """A small trained model's ``folder``, ``path``, and its ``data``."""
    options = ("--batch-size", 8, "--max-epoch", 12, "--save-interval", 12)
    folder = shared("trained", lambda folder: train(corpus.data, folder, *options))
    path = folder / LAST
    return SimpleNamespace(folder=folder, path=path, data=corpus.data)


def write_other_dictionaries(data: Path, folder: Path) -> None:
    """The words of *data* in another order."""
    words = (data / "dict.xx.txt").read_text().splitlines()
    for language in ("xx", "yy"):
        (folder / f"dict.{language}.txt").write_text("\n".join([*words[::-1], ""]))


def make_world(folder: Path) -> None:
    text, pieces = folder / "text", folder / "pieces"
    for made in (text, pieces):
        made.mkdir()
    write_corpus(text)
    lines = {path.name: path.read_text().splitlines() for path in text.iterdir()}
    spm = train_subwords(lines["train.xx"] + lines["train.yy"], folder / "spm", 50)
    encode = Subwords(spm).encode
    for name, side in lines.items():
        (pieces / name).write_text("".join(" ".join(encode(line)) + "\n" for line in side), "utf-8")
    data = preprocess(folder / "data-bin", **{split: pieces / split for split in SIZES})
    TextSettings("xx", "yy", spm, NFC).save(data)
    options = ("--batch-size", 8, "--max-epoch", EPOCHS, "--save-interval", EPOCHS)
    train(data, folder / "model", *options, "--share-all-embeddings")


@pytest.fixture(scope="session")
def world(shared):
    """A small model trained on subwords: a :class:`World`."""
    folder = shared("world", make_world)
    (spm,) = folder.glob("spm*.model")
    checkpoint = folder / "model" / LAST
    return World(folder / "text", folder / "data-bin", spm, checkpoint)


@pytest.fixture(scope="session")
def transformer(world, shared):
    """A checkpoint of fairseq's own model, trained on the same data."""
    options = ("--arch", "transformer", "--encoder-attention-heads", 2, "--optimizer", "adam")
    options += ("--batch-size", 8, "--max-epoch", 8, "--save-interval", 8, "--lr", 0.005)
    options += ("--share-all-embeddings",)
    return shared("transformer", lambda folder: train(world.data, folder, *options)) / LAST
