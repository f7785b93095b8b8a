"""A tiny corpus in subwords and a small model trained on it; made-up binary data of any size."""

import random
from pathlib import Path
from typing import Dict, NamedTuple

from fairseq_programs import preprocess, train
from trained_models import SIZES, write_corpus

from resmlp_mt.text.lines import write_lines
from resmlp_mt.text.settings import TextSettings
from resmlp_mt.text.subwords import Subwords, train_subwords

EPOCHS = 4
WORDS = [f"w{number:02d}" for number in range(60)]


class World(NamedTuple):
    """
    Attributes:
        text: folder with ``train.xx``, ``train.yy`` ...: raw.
        data: the binary data of the text in subwords, with one dictionary.
        spm: the SentencePiece model.
        checkpoint: trained on *data*, for some updates.
    """

    text: Path
    data: Path
    spm: Path
    checkpoint: Path


def make(folder: Path) -> World:
    """Make one; takes some two seconds."""
    text, pieces = folder / "text", folder / "pieces"
    for made in (text, pieces, folder / "subwords"):
        made.mkdir(parents=True)
    write_corpus(text)
    lines = {path.name: path.read_text().splitlines() for path in text.iterdir()}
    both = [line for name in ("train.xx", "train.yy") for line in lines[name]]
    spm = train_subwords(both, folder / "subwords" / "spm", 50)
    subwords = Subwords(spm)
    for name, side in lines.items():
        (pieces / name).write_text(
            "".join(f"{subwords.encode(line)}\n" for line in side), encoding="utf-8"
        )
    preprocess(folder / "data-bin", **{split: pieces / split for split in SIZES})
    TextSettings("xx", "yy", False, spm).save(folder / "data-bin")
    options = ("--batch-size", 8, "--max-epoch", EPOCHS, "--save-interval", EPOCHS)
    train(folder / "data-bin", folder / "model", *options, "--share-all-embeddings")
    checkpoint = folder / "model" / "checkpoint_last.pt"
    return World(text, folder / "data-bin", spm, checkpoint)


def binary_data(folder: Path, sizes: Dict[str, int], lengths: range = range(1, 13)) -> Path:
    """Pairs of languages xx and yy: each target is its source reversed, the next word for each.

    Args:
        folder: to be made, for the text.
        sizes: pairs by split: ``{"train": 200, "valid": 50}``.
        lengths: words of a sentence.

    Returns:
        the folder of binary data.
    """
    folder.mkdir(parents=True)
    draw, after = random.Random(0), dict(zip(WORDS, [*WORDS[1:], WORDS[0]]))
    for split, size in sizes.items():
        sources = [draw.choices(WORDS, k=draw.choice(lengths)) for _ in range(size)]
        targets = [[after[word] for word in reversed(source)] for source in sources]
        for language, sentences in (("xx", sources), ("yy", targets)):
            write_lines(folder / f"{split}.{language}", map(" ".join, sentences))
    return preprocess(folder / "bin", **{split: folder / split for split in sizes})
