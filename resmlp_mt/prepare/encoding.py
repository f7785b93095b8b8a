"""The text in subwords, as fairseq's binary data; pairs of unfit length left out and counted.

============  ====================================================================================
``too-long``      a side has more than 250 pieces
``length-ratio``  one side has more than 1.5 times as many pieces as the other
``empty``         a side has no piece: SentencePiece leaves nothing of a few characters
============  ====================================================================================

That is ``clean-corpus-n.perl -ratio 1.5 ... 1 250`` in fairseq's recipes for WMT14.
"""

from array import array
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Tuple

import numpy as np
from tqdm import tqdm

from resmlp_mt.prepare.binary import (
    WORD,
    DataWriter,
    end_of_sentence,
    fairseq_numbers,
    make_dictionary,
)
from resmlp_mt.prepare.parallel import Workers, chunks
from resmlp_mt.prepare.recipes import Pair
from resmlp_mt.text.subwords import Subwords

MAX_PIECES = 250
SPLITS = ("train", "valid", "test")

_subwords: Subwords  # of a worker process


class Side(NamedTuple):
    """Sentences one behind the other.

    Attributes:
        words: SentencePiece's numbers with the end of each sentence.
        lengths: words of each sentence, its end included; int32.
    """

    words: np.ndarray
    lengths: np.ndarray


def load_subwords(model: Path) -> None:
    """Called once in each worker process."""
    global _subwords
    _subwords = Subwords(model)


def encode_chunk(chunk: Tuple[List[bytes], List[bytes]]) -> Tuple[Side, Side, Counter]:
    """In a worker process: lines of text to words of the pairs that are kept.

    Returns:
        both sides; how many pairs were dropped, by reason.
    """
    sides = [_pieces(_subwords, [line[:-1].decode() for line in lines]) for lines in chunk]
    kept, dropped = [], Counter()
    for number, lengths in enumerate(zip(*(map(len, side) for side in sides))):
        reason = unfit(*lengths)
        if reason:
            dropped[reason] += 1
        else:
            kept.append(number)
    source, target = ([side[number] for number in kept] for side in sides)
    end = end_of_sentence(_subwords)
    return _joined(source, end), _joined(target, end), dropped


def unfit(source: int, target: int) -> str:
    """Why a pair with so many pieces is left out; nothing if it is not."""
    shorter, longer = sorted((source, target))
    if shorter == 0:
        return "empty"
    if longer > MAX_PIECES:
        return "too-long"
    return "length-ratio" if 2 * longer > 3 * shorter else ""


def _pieces(subwords: Subwords, lines: List[str]) -> List[List[int]]:
    return subwords.processor.encode(lines, out_type=int, num_threads=1)


def _joined(sentences: List[List[int]], end: int) -> Side:
    words = array("H")
    for sentence in sentences:
        words.extend(sentence)
        words.append(end)
    lengths = np.fromiter(map(len, sentences), np.int32, len(sentences)) + np.int32(1)
    return Side(np.frombuffer(words, WORD), lengths)


def encode(
    train: Iterable[Tuple[bytes, bytes]],
    held_out: Dict[str, Tuple[List[str], List[str]]],
    pairs: int,
    model: Path,
    pair: Pair,
    workers: int,
    folder: Path,
) -> dict:
    """Write the binary data of all splits and the dictionary into *folder*.

    Args:
        train: training text, both sides, each line with its end.
        held_out: normalised lines of both sides of ``valid`` and ``test``, none of which is left
            out.
        pairs: how many *train* has, for the progress bar.
        workers: processes.

    Returns:
        what was dropped, how many pairs, words and unknown words each split has, and how many
        types the dictionary.
    """
    subwords = Subwords(model)
    end = end_of_sentence(subwords)
    sides = (pair.source, pair.target)
    keys = [(split, side) for split in SPLITS for side in sides]
    counts = {key: np.zeros(end + 1, np.int64) for key in keys}
    dropped: Counter = Counter()

    def write(split: str, encoded: Iterable[Side]) -> None:
        for side, (words, lengths) in zip(sides, encoded):
            writers[split, side].add(words, lengths)
            counts[split, side] += np.bincount(words, minlength=end + 1)

    with (
        ExitStack() as files,
        Workers(workers, load_subwords, model) as pool,
        tqdm(total=pairs, desc="    encode", unit=" pairs", mininterval=1) as bar,
    ):
        writers = {
            (split, side): files.enter_context(
                DataWriter(folder / f"{split}.{pair.source}-{pair.target}.{side}")
            )
            for split, side in keys
        }
        for source, target, reasons in pool.map(encode_chunk, chunks(train)):
            write("train", (source, target))
            dropped += reasons
            bar.update(len(source.lengths) + sum(reasons.values()))
            bar.set_postfix_str(f"{sum(dropped.values())} dropped", refresh=False)
        for split, lines in held_out.items():
            write(split, (_joined(_pieces(subwords, side), end) for side in lines))
        dictionary = make_dictionary(subwords, sum(counts["train", side] for side in sides))
        numbers = fairseq_numbers(subwords, dictionary)
        for writer in writers.values():
            writer.finish(numbers)
    for side in sides:
        dictionary.save(str(folder / f"dict.{side}.txt"))
    return {
        "dropped": dict(dropped),
        "types": len(dictionary),
        "splits": {
            split: {
                "pairs": writers[split, pair.source].sentences,
                **{
                    side: {
                        "words": writers[split, side].words,
                        "unknown": int(counts[split, side][numbers == dictionary.unk()].sum()),
                    }
                    for side in sides
                },
            }
            for split in SPLITS
        },
    }
