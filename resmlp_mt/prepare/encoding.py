"""The text in subwords: the binary data of fairseq, or text of pieces for ``fairseq-preprocess``.

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
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

import numpy as np
from tqdm import tqdm

from resmlp_mt.errors import OptionError
from resmlp_mt.prepare.binary import WORD, DataWriter, make_dictionary
from resmlp_mt.prepare.corpora import Chunk, Corpus, chunks
from resmlp_mt.processes import Workers
from resmlp_mt.text.lines import one_line
from resmlp_mt.text.settings import TextSettings

DICTIONARY = "dict.txt"  # beside text of pieces, for fairseq-preprocess --srcdict


class Side(NamedTuple):
    """Sentences one behind the other.

    Attributes:
        words: numbers of SentencePiece's (:data:`WORD`), with the end of each sentence.
        lengths: words of each sentence, its end included (int32).
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
        pieces: whether the text of the pieces is asked for.
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
        end = self.subwords.processor.get_piece_size()
        words = array("H")
        for sentence in sentences:
            words.extend(sentence)
            words.append(end)
        lengths = np.array([len(sentence) + 1 for sentence in sentences], np.int32)
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


def _load_encoder(*options) -> None:
    global _encoder
    _encoder = Encoder(*options)


def _encode_chunk(task: Tuple[str, Chunk]) -> Tuple[List[Side], Counter]:
    split, chunk = task
    return _encoder.train(chunk) if split == "train" else _encoder.held_out(chunk)


def encode(
    splits: Dict[str, Corpus],
    pairs: int,
    settings: TextSettings,
    limits: Tuple[int, Optional[float]],
    workers: int,
    pieces: bool,
    folder: Path,
    dictionary: Optional[Path] = None,
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
        dictionary: of other data, to take in place of one of the training text.

    Returns:
        what was left out, how many pairs, words and unknown words each split has, and how many
        types the dictionary.

    Raises:
        UserError: if no training pair is left.
    """
    processor = settings.subwords.processor
    sides = (settings.source_lang, settings.target_lang)
    size = processor.get_piece_size() + 1
    counts = {(split, side): np.zeros(size, np.int64) for split in splits for side in sides}
    kept, dropped, writers = Counter(), Counter(), {}
    with (
        Workers(workers, _load_encoder, settings, *limits, pieces) as pool,
        tqdm(total=pairs, desc="    encode", unit=" pairs", mininterval=1, disable=None) as bar,
    ):
        for split, corpus in splits.items():
            if not pieces:
                prefix = folder / f"{split}.{'-'.join(sides)}"
                writers.update({(split, side): DataWriter(f"{prefix}.{side}") for side in sides})
            tasks = ((split, chunk) for chunk in chunks(corpus.pairs()))
            for encoded, reasons in pool.map(_encode_chunk, tasks):
                for side, found in zip(sides, encoded):
                    counts[split, side] += np.bincount(found.words, minlength=size)
                    if pieces:
                        with open(folder / f"{split}.{side}", "a", encoding="utf-8") as file:
                            file.write(found.text)
                    else:
                        writers[split, side].add(found.words, found.lengths)
                kept[split] += len(encoded[0].lengths)
                dropped += reasons
                bar.update(len(encoded[0].lengths) + reasons.total())
    if not kept["train"]:
        raise OptionError(
            f"no training pair is left ({', '.join(f'{n} {why}' for why, n in dropped.items())}): "
            "see --max-pieces and --max-ratio"
        )
    of_training = sum(counts["train", side] for side in sides)
    dictionary, numbers = make_dictionary(processor, of_training, dictionary)
    for writer in writers.values():
        writer.finish(numbers)
    for name in [DICTIONARY] if pieces else [f"dict.{side}.txt" for side in sides]:
        dictionary.save(str(folder / name))
    settings.save(folder)
    report = {split: {"pairs": kept[split]} for split in splits}
    for (split, side), found in counts.items():
        unknown = int(found[numbers == dictionary.unk()].sum())
        report[split][side] = {"words": int(found.sum()), "unknown": unknown}
    return {"dropped": dict(dropped), "types": len(dictionary), "splits": report}
