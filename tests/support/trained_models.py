"""Tiny parallel corpora and small trained models, made once by each process that runs tests."""

import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from fairseq_programs import LAST, preprocess, train
from prepare_text import write_pairs, write_side

from resmlp_mt.text import TextSettings, train_subwords
from resmlp_mt_runtime.pieces import NFC, Subwords

EPOCHS = 4  # of the world
SIZES = {"train": 61, "valid": 13, "test": 11}  # none is a multiple of 8


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """``text``: each target is its source reversed, with the next word for each word; ``data``: the
    same as binary data with one dictionary."""
    folder, generator = tmp_path_factory.mktemp("corpus"), random.Random(0)
    for split, size in SIZES.items():
        pairs = []
        for _ in range(size):
            source = [generator.randrange(40) for _ in range(generator.randint(1, 9))]
            target = [(word + 1) % 40 for word in reversed(source)]
            pairs.append([" ".join(f"w{word:02d}" for word in side) for side in (source, target)])
        write_pairs(folder, split, ("xx", "yy"), pairs)
    data = tmp_path_factory.mktemp("data")
    preprocess(data, **{split: folder / split for split in SIZES})
    return SimpleNamespace(text=folder, data=data, sizes=SIZES)


@pytest.fixture(scope="session")
def trained(corpus, tmp_path_factory):
    """A small trained model's ``folder``, ``path``, and its ``data``."""
    folder = tmp_path_factory.mktemp("trained")
    train(corpus.data, folder, "--batch-size", 8, "--max-epoch", 12, "--save-interval", 12)
    return SimpleNamespace(folder=folder, path=folder / LAST, data=corpus.data)


def write_other_dictionaries(data: Path, folder: Path) -> None:
    """The words of *data* in another order."""
    words = (data / "dict.xx.txt").read_text().splitlines()
    for language in ("xx", "yy"):
        (folder / f"dict.{language}.txt").write_text("\n".join([*words[::-1], ""]))


@pytest.fixture(scope="session")
def world(corpus, tmp_path_factory):
    """A ``checkpoint`` trained on that ``text`` in subwords of ``spm``, which are in ``data``."""
    folder = tmp_path_factory.mktemp("world")
    pieces = folder / "pieces"
    pieces.mkdir()
    lines = {path.name: path.read_text().splitlines() for path in corpus.text.iterdir()}
    spm = train_subwords(lines["train.xx"] + lines["train.yy"], folder / "spm", 50)
    encode = Subwords(spm).encode
    for name, side in lines.items():
        write_side(pieces / name, (" ".join(encode(line)) for line in side))
    data = preprocess(folder / "data-bin", **{split: pieces / split for split in SIZES})
    TextSettings("xx", "yy", shutil.copy(spm, data), NFC).save(data)
    options = ("--batch-size", 8, "--max-epoch", EPOCHS, "--save-interval", EPOCHS)
    train(data, folder / "model", *options, "--share-all-embeddings")
    checkpoint = folder / "model" / LAST
    return SimpleNamespace(text=corpus.text, data=data, spm=spm, checkpoint=checkpoint)


@pytest.fixture(scope="session")
def transformer(world, tmp_path_factory):
    """A checkpoint of fairseq's own model, trained on the same data."""
    folder = tmp_path_factory.mktemp("transformer")
    options = ("--arch", "transformer", "--encoder-attention-heads", 2, "--optimizer", "adam")
    options += ("--batch-size", 8, "--max-epoch", 8, "--save-interval", 8, "--lr", 0.005)
    train(world.data, folder, *options, "--share-all-embeddings")
    return folder / LAST
