"""Joint subwords of both languages, learnt from a sample of fixed size."""

import os
import random
from pathlib import Path
from typing import Iterator

from resmlp_mt.errors import UserError
from resmlp_mt.prepare.corpora import Corpus
from resmlp_mt.processes import Workers
from resmlp_mt.text.subwords import Subwords, train_subwords

SAMPLE = 1_000_000  # sentence pairs


def learn_subwords(
    train: Corpus, pairs: int, prefix: Path, vocab_size: int, coverage: float, seed: int
) -> None:
    """Write ``PREFIX.model`` and ``PREFIX.vocab``.

    Args:
        train: the text that is trained on.
        pairs: how many sentence pairs it has.
        vocab_size: pieces of both languages together.
        coverage: share of the characters that are in the vocabulary.
        seed: of the sample.

    Raises:
        UserError: if the text has too little variety for *vocab_size*, or too much; if the model
            could not be written.
    """
    # the process changes its folder, so that paths must not depend on that
    corpus = Corpus(train.name, train.source.absolute(), train.target.absolute())
    task = (corpus, pairs, prefix.absolute(), vocab_size, coverage, seed)
    # in a process of its own, whose memory is given back: it takes more than all else
    with Workers(1) as pool:
        list(pool.map(_learn, [task]))
    try:
        Subwords(Path(f"{prefix}.model"))
    except UserError:  # SentencePiece may leave a model cut off, without a word
        raise UserError(f"{prefix}.model could not be written: is the disk full?") from None


def _learn(task: tuple) -> None:
    train, pairs, prefix, vocab_size, coverage, seed = task
    chosen = sample(train.pairs(), pairs, SAMPLE, seed)
    lines = (side.decode() for both in chosen for side in both)
    # the model has the path that it is written to in it: of the same text it is the same everywhere
    os.chdir(prefix.parent)
    train_subwords(lines, Path(prefix.name), vocab_size, coverage)


def sample(lines: Iterator, total: int, size: int, seed: int) -> Iterator:
    """*size* of *lines*, each as likely as any other, in their order; all if there are fewer.

    Selection sampling (Knuth, *Seminumerical Algorithms*, 3.4.2, algorithm S): no memory, and the
    same choice every time.

    Args:
        lines: *total* of them.
    """
    draw = random.Random(seed).random
    wanted = min(size, total)
    for left, line in zip(range(total, 0, -1), lines):
        if draw() * left < wanted:
            wanted -= 1
            yield line
