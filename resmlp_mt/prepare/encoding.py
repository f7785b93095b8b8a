"""Clean text to subwords, and these to fairseq's binary data by what fairseq-preprocess calls.

A training pair is left out and counted if a side has no piece (``empty``) or too many
(``too-long``), or more times as many as the other than are allowed (``length-ratio``). Of the
held-out sets nothing is left out.
"""

import contextlib
import random
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Dict, Iterator, Optional, Tuple

from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
from fairseq.data import Dictionary

from resmlp_mt.errors import OptionError, UserError
from resmlp_mt.prepare.corpora import Chunk, Corpus, chunks
from resmlp_mt.prepare.pool import workers
from resmlp_mt.progress import Progress
from resmlp_mt.text.lines import one_line
from resmlp_mt.text.settings import TextSettings
from resmlp_mt.text.subwords import Subwords, train_subwords

SAMPLE = 1_000_000  # sentence pairs that subwords are learnt from
FEW = 1 << 20  # bytes that one process turns into numbers


def learn_subwords(train: Corpus, pairs: int, prefix: Path, options) -> None:
    """Write ``PREFIX.model`` and ``PREFIX.vocab`` from a sample of *pairs* pairs.

    Without a vocabulary size of the user's, a text with too little variety gets a smaller one.
    """
    train = Corpus(train.name, train.source.absolute(), train.target.absolute())

    def learn(size: int) -> None:
        chosen = sample(train.pairs(), pairs, SAMPLE, options.seed)
        lines = (side.decode() for both in chosen for side in both)
        # the path is stored in the model: of the same text it is the same everywhere
        with contextlib.chdir(prefix.parent):
            train_subwords(lines, Path(prefix.name), size, options.coverage)

    # in a process of its own, whose memory is given back: it takes more than all else
    with workers(1, learn) as learn_all:
        size = options.vocab_size or options.default_vocab_size
        try:
            list(learn_all([size]))
        except OptionError as error:
            if options.vocab_size or not error.most:
                raise
            print(f"    note: {error.most} subwords: the text has none more", file=sys.stderr)
            list(learn_all([error.most]))
    try:
        Subwords(Path(f"{prefix}.model"))
    except UserError:  # SentencePiece may leave half a model without a word
        raise UserError(f"{prefix}.model could not be written: is the disk full?") from None


def sample(lines: Iterator, total: int, size: int, seed: int) -> Iterator:
    """*size* of *total* lines, each as likely as any other, in their order; all if there are fewer.

    Selection sampling (Knuth, *Seminumerical Algorithms*, 3.4.2, algorithm S).
    """
    draw = random.Random(seed).random
    wanted = min(size, total)
    for left, line in zip(range(total, 0, -1), lines):
        if draw() * left < wanted:
            wanted -= 1
            yield line


class Encoder:
    """What a worker does to a chunk of a split."""

    def __init__(self, settings: TextSettings, max_pieces: int, max_ratio: Optional[float]):
        self.settings, self.subwords = settings, settings.subwords
        self.max_pieces, self.max_ratio = max_pieces, max_ratio

    def __call__(self, task: Tuple[str, Chunk]) -> Tuple[int, str, str, Counter, Counter]:
        """How many pairs are kept, the pieces of both sides, the count of each piece, and why
        other pairs were left out."""
        split, chunk = task
        kept, counts, dropped = [], Counter(), Counter()
        plain = (self.settings.plain_source, self.settings.plain_target)
        for pair in zip(*chunk):
            sides = [line.decode("utf-8") for line in pair]
            if split != "train":  # the training text is clean
                sides = [one_line(make_plain(side)) for make_plain, side in zip(plain, sides)]
            pieces = [self.subwords.encode(side) for side in sides]
            lengths = [len(side.split(" ")) if side else 0 for side in pieces]
            reason = (
                unfit(lengths[0], lengths[1], self.max_pieces, self.max_ratio)
                if split == "train"
                else ""
            )
            if reason:
                dropped[reason] += 1
                continue
            kept.append(pieces)
            for side in pieces:
                counts.update(side.split())
        source, target = ("".join(f"{pieces[side]}\n" for pieces in kept) for side in (0, 1))
        return len(kept), source, target, counts, dropped


def unfit(source: int, target: int, max_pieces: int, max_ratio: Optional[float]) -> str:
    """Why a pair with so many pieces is left out; nothing if it is not."""
    shorter, longer = sorted((source, target))
    if shorter == 0:
        return "empty"
    if longer > max_pieces:
        return "too-long"
    if max_ratio is not None and longer > max_ratio * shorter:
        return "length-ratio"
    return ""


def encode(
    splits: Dict[str, Corpus],
    pairs: int,
    encoder: Encoder,
    processes: int,
    folder: Path,
    dictionary: Optional[Path] = None,
) -> dict:
    """Write the binary data of all splits and their dictionary into *folder*.

    Args:
        splits: ``train``, which is clean, and the held-out sets as they were given.
        pairs: how many they have together.
        dictionary: of other data, to take in place of one of the training text.

    Returns:
        how many pairs each split has and were left out, and the number of types.
    """
    settings = encoder.settings
    languages = (settings.source_lang, settings.target_lang)
    counts, kept, dropped = Counter(), Counter(), Counter()
    pieces = folder / "pieces"
    pieces.mkdir()
    with (
        workers(processes, encoder) as encode_all,
        Progress("    encode", pairs, "pairs") as progress,
    ):
        for split, corpus in splits.items():
            tasks = ((split, chunk) for chunk in chunks(corpus.pairs()))
            paths = [pieces / f"{split}.{language}" for language in languages]
            with (
                open(paths[0], "w", encoding="utf-8") as source_file,
                open(paths[1], "w", encoding="utf-8") as target_file,
            ):
                for number, source, target, counted, reasons in encode_all(tasks):
                    source_file.write(source)
                    target_file.write(target)
                    kept[split] += number
                    dropped += reasons
                    if split == "train":
                        counts += counted
                    progress.add(number + reasons.total())
    if not kept["train"]:
        raise OptionError(
            f"no training pair is left ({', '.join(f'{n} {why}' for why, n in dropped.items())}): "
            "see --max-pieces and --max-ratio"
        )
    if dictionary is None:
        words = Dictionary()
        processor = encoder.subwords.processor
        for piece, count in counts.items():
            if processor.piece_to_id(piece) != processor.unk_id():
                words.add_symbol(piece, n=count)
        words.finalize()
    else:
        words = Dictionary.load(str(dictionary))
    binarizer = VocabularyDatasetBinarizer(words, append_eos=True)
    for language in languages:
        words.save(str(folder / f"dict.{language}.txt"))
        for split in splits:
            text, output = (
                pieces / f"{split}.{language}",
                f"{split}.{'-'.join(languages)}.{language}",
            )
            FileBinarizer.multiprocess_dataset(
                *(str(text), "mmap", binarizer, str(folder / output)),
                vocab_size=len(words),
                num_workers=processes if text.stat().st_size > FEW else 1,
            )
    shutil.rmtree(pieces)
    settings.save(folder)
    return {"dropped": dict(dropped), "types": len(words), "pairs": dict(kept)}
