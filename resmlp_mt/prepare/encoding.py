"""The text in subwords: fairseq's binary data, or text of pieces for ``fairseq-preprocess``.

Training pairs of unfit length are left out and counted:

================  ===============================================================================
``empty``         a side has no piece: SentencePiece leaves nothing of a few characters
``too-long``      a side has more pieces than are allowed
``length-ratio``  one side has more times as many pieces as the other than are allowed
================  ===============================================================================

Of the held-out sets nothing is left out.
"""

from array import array
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

import numpy as np
from tqdm import tqdm

from resmlp_mt.prepare.binary import (
    WORD,
    DataWriter,
    end_of_sentence,
    fairseq_numbers,
    make_dictionary,
)
from resmlp_mt.prepare.corpora import Chunk, Corpus, chunks
from resmlp_mt.processes import Workers
from resmlp_mt.text.lines import one_line
from resmlp_mt.text.settings import TextSettings
from resmlp_mt.text.subwords import Subwords

DICTIONARY = "dict.txt"  # beside text of pieces, for fairseq-preprocess --srcdict


class Side(NamedTuple):
    """Sentences one behind the other.

    Attributes:
        words: numbers of SentencePiece's, with the end of each sentence.
        lengths: words of each sentence, its end included; int32.
        text: pieces separated by spaces, a line for each sentence, if they were asked for.
    """

    words: np.ndarray
    lengths: np.ndarray
    text: str


class Encoder:
    """What a worker process does to text.

    Args:
        settings: how lines become pieces.
        max_pieces, max_ratio: limits of a training pair; the second may be None.
        pieces: whether the text of the pieces is wanted.
    """

    def __init__(
        self, settings: TextSettings, max_pieces: int, max_ratio: Optional[float], pieces: bool
    ):
        self.subwords, self.settings = settings.subwords, settings
        self.max_pieces, self.max_ratio, self.pieces = max_pieces, max_ratio, pieces

    def train(self, chunk: Chunk) -> Tuple[List[Side], Counter]:
        """Lines of training text, which is clean, to the pairs that are kept."""
        lines = [[line[:-1].decode() for line in side] for side in chunk]
        numbers = [self._numbers(side) for side in lines]
        kept, dropped = [], Counter()
        for index, lengths in enumerate(zip(*(map(len, side) for side in numbers))):
            reason = unfit(*lengths, self.max_pieces, self.max_ratio)
            if reason:
                dropped[reason] += 1
            else:
                kept.append(index)
        sides = [
            self._side([found[index] for index in kept], [side[index] for index in kept])
            for found, side in zip(numbers, lines)
        ]
        return sides, dropped

    def held_out(self, chunk: Chunk) -> Tuple[List[Side], Counter]:
        """Lines as they were given, none of which is left out."""
        plain = (self.settings.plain_source, self.settings.plain_target)
        sides = []
        for side, make_plain in zip(chunk, plain):
            lines = [one_line(make_plain(line.decode())) for line in side]
            sides.append(self._side(self._numbers(lines), lines))
        return sides, Counter()

    def _numbers(self, lines: List[str]) -> List[List[int]]:
        processor = self.subwords.processor
        found = processor.encode(lines, out_type=int, num_threads=1)
        unknown = processor.unk_id()
        for index, numbers in enumerate(found):
            if unknown in numbers:  # where a symbol of fairseq's is text, it is cut into letters
                pieces = self.subwords.encode(lines[index]).split(" ")
                found[index] = processor.piece_to_id(pieces)
        return found

    def _side(self, sentences: List[List[int]], lines: List[str]) -> Side:
        end = end_of_sentence(self.subwords)
        words = array("H")
        for sentence in sentences:
            words.extend(sentence)
            words.append(end)
        lengths = np.fromiter(map(len, sentences), np.int32, len(sentences)) + np.int32(1)
        text = ""
        if self.pieces:
            text = "".join(f"{self.subwords.encode(line)}\n" for line in lines)
        return Side(np.frombuffer(words, WORD), lengths, text)


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


_encoder: Encoder  # of a worker process


def load_encoder(*options) -> None:
    """Called once in each worker process."""
    global _encoder
    _encoder = Encoder(*options)


def encode_chunk(task: Tuple[str, Chunk]) -> Tuple[List[Side], Counter]:
    """In a worker process: lines of a split to words."""
    split, chunk = task
    return _encoder.train(chunk) if split == "train" else _encoder.held_out(chunk)


class PiecesWriter:
    """One side of one split as text; takes what :class:`DataWriter` does."""

    def __init__(self, path: Path):
        self.path = path
        self.sentences = self.words = 0

    def __enter__(self) -> "PiecesWriter":
        self._file = open(self.path, "w", encoding="utf-8", newline="\n")
        return self

    def __exit__(self, *_) -> None:
        self._file.close()

    def add(self, side: Side) -> None:
        self._file.write(side.text)
        self.sentences += len(side.lengths)
        self.words += len(side.words)

    def finish(self, _: np.ndarray) -> None:
        self._file.close()


def encode(
    splits: Dict[str, Corpus],
    pairs: int,
    settings: TextSettings,
    limits: Tuple[int, Optional[float]],
    workers: int,
    pieces: bool,
    folder: Path,
) -> dict:
    """Write all splits and the dictionary into *folder*.

    Args:
        splits: ``train``, which is clean, and the held-out sets as they were given.
        pairs: how many they have together, for the progress bar.
        settings: how lines become pieces.
        limits: the most pieces of a training sentence, and the most times as many on one side as
            on the other.
        workers: processes.
        pieces: write text of pieces in place of binary data.

    Returns:
        what was left out, how many pairs, words and unknown words each split has, and how many
        types the dictionary.
    """
    subwords = Subwords(settings.subword_model)
    end = end_of_sentence(subwords)
    sides = (settings.source_lang, settings.target_lang)
    counts = {(split, side): np.zeros(end + 1, np.int64) for split in splits for side in sides}
    dropped: Counter = Counter()
    with (
        ExitStack() as files,
        Workers(workers, load_encoder, settings, *limits, pieces) as pool,
        tqdm(total=pairs, desc="    encode", unit=" pairs", mininterval=1, disable=None) as bar,
    ):
        writers = {}
        for split, side in counts:
            if pieces:
                writer = PiecesWriter(folder / f"{split}.{side}")
            else:
                writer = DataWriter(folder / f"{split}.{sides[0]}-{sides[1]}.{side}")
            writers[split, side] = files.enter_context(writer)
        for split, corpus in splits.items():
            tasks = ((split, chunk) for chunk in chunks(corpus.pairs()))
            for encoded, reasons in pool.map(encode_chunk, tasks):
                for side, found in zip(sides, encoded):
                    writers[split, side].add(found)
                    counts[split, side] += np.bincount(found.words, minlength=end + 1)
                dropped += reasons
                bar.update(len(encoded[0].lengths) + sum(reasons.values()))
                bar.set_postfix_str(f"{sum(dropped.values())} dropped", refresh=False)
        dictionary = make_dictionary(subwords, sum(counts["train", side] for side in sides))
        numbers = fairseq_numbers(subwords, dictionary)
        for writer in writers.values():
            writer.finish(numbers)
    for name in [DICTIONARY] if pieces else [f"dict.{side}.txt" for side in sides]:
        dictionary.save(str(folder / name))
    settings.save(folder)
    return {
        "dropped": dict(dropped),
        "types": len(dictionary),
        "splits": {
            split: {
                "pairs": writers[split, sides[0]].sentences,
                **{
                    side: {
                        "words": writers[split, side].words,
                        "unknown": int(counts[split, side][numbers == dictionary.unk()].sum()),
                    }
                    for side in sides
                },
            }
            for split in splits
        },
    }
