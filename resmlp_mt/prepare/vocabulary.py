"""Joint subwords of both languages, learnt from a sample of fixed size."""

import os
from pathlib import Path

from resmlp_mt.errors import UserError
from resmlp_mt.prepare.parallel import Workers
from resmlp_mt.prepare.recipes import Pair
from resmlp_mt.prepare.text import read_kept, sample
from resmlp_mt.text.subwords import Subwords, train_subwords

SAMPLE = 1_000_000  # sentence pairs
# of the sample's characters: the rarest of other scripts, of which web pages have thousands, would
# each take one of the pieces
CHARACTER_COVERAGE = 0.99999
SEED = 1


def learn_subwords(text: Path, pair: Pair, pairs: int, prefix: Path, vocab_size: int) -> None:
    """Write ``PREFIX.model`` and ``PREFIX.vocab``.

    Args:
        text: the folder of ``train.*``.
        pairs: how many sentence pairs are to be kept of it.

    Raises:
        UserError: if the text has too little variety for *vocab_size*, or too much; if the model
            could not be written.
    """
    try:
        # in a process of its own, whose memory is given back: it takes more than all else
        with Workers(1, int) as pool:
            list(pool.map(_learn, [(text.absolute(), pair, pairs, prefix, vocab_size)]))
        Subwords(Path(f"{prefix}.model"))  # SentencePiece may leave one cut off, without a word
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"{prefix}.model could not be written ({reason}): is the disk full?"
        ) from None


def _learn(task: tuple) -> None:
    text, pair, pairs, prefix, vocab_size = task
    chosen = sample(read_kept(text, pair), pairs, SAMPLE, SEED)
    lines = (side.decode() for both in chosen for side in both)
    # the model has the path that it is written to in it: of the same text it is the same everywhere
    os.chdir(prefix.parent)
    train_subwords(lines, Path(prefix.name), vocab_size, CHARACTER_COVERAGE)
