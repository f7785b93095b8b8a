"""fairseq's binary data set, written as a stream.

fairseq's own builder keeps a Python list of all lengths; this one keeps nothing, and numbers the
words when their frequencies are known, after they have been written. What it leaves is byte for
byte what ``fairseq-preprocess --joined-dictionary`` makes of the same pieces.

The words of a sentence are written as SentencePiece's numbers of its pieces. When all are there,
:meth:`DataWriter.finish` puts fairseq's numbers in their place.
"""

import struct
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, List

import numpy as np
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset, _dtype_header_code

from resmlp_mt.text.subwords import Subwords

WORD = np.uint16  # fairseq's choice for a dictionary of less than 65,500 words
MAX_VOCAB = 65_000
BLOCK = 1 << 20  # words or sentences renumbered at a time


def end_of_sentence(subwords: Subwords) -> int:
    """What stands for the end of a sentence among SentencePiece's numbers: the first free one."""
    return subwords.processor.get_piece_size()


def make_dictionary(subwords: Subwords, counts: np.ndarray) -> Dictionary:
    """The pieces of the training text, the most frequent first, as fairseq orders them.

    Args:
        counts: of each piece in both sides of the training text, by SentencePiece's number.
    """
    dictionary = Dictionary()
    for number, piece in enumerate(_pieces(subwords)):
        if counts[number] and number != subwords.processor.unk_id():
            dictionary.add_symbol(piece, n=int(counts[number]))
    dictionary.finalize()
    return dictionary


def fairseq_numbers(subwords: Subwords, dictionary: Dictionary) -> np.ndarray:
    """fairseq's number of each of SentencePiece's, the end of the sentence included."""
    numbers = [dictionary.index(piece) for piece in _pieces(subwords)]
    return np.array([*numbers, dictionary.eos()], WORD)


def _pieces(subwords: Subwords) -> List[str]:
    """In the order of SentencePiece's numbers; none is one of fairseq's, such as ``</s>``."""
    return subwords.processor.id_to_piece(list(range(end_of_sentence(subwords))))


class DataWriter:
    """One side of one split: ``PREFIX.bin`` and, when it is finished, ``PREFIX.idx``."""

    def __init__(self, prefix: Path):
        self.prefix = prefix
        self.sentences = self.words = 0
        self._files = ExitStack()

    def __enter__(self):
        self._bin = self._files.enter_context(open(f"{self.prefix}.bin", "wb"))
        self._lengths = self._files.enter_context(open(f"{self.prefix}.lengths", "wb"))
        return self

    def __exit__(self, *_):
        self._files.close()

    def add(self, side) -> None:
        """Sentences one behind the other.

        Args:
            side: has ``words``, SentencePiece's numbers (:data:`WORD`) with the end of each
                sentence, and ``lengths`` (int32), which sum up to the number of words.
        """
        self._bin.write(side.words.tobytes())
        self._lengths.write(side.lengths.tobytes())
        self.sentences += len(side.lengths)
        self.words += len(side.words)

    def finish(self, numbers: np.ndarray) -> None:
        """Put fairseq's numbers in place and write the index.

        Args:
            numbers: from :func:`fairseq_numbers`.
        """
        self._files.close()
        with open(f"{self.prefix}.bin", "r+b") as file:
            while block := file.read(BLOCK * WORD().itemsize):
                file.seek(-len(block), 1)
                file.write(numbers[np.frombuffer(block, WORD)].tobytes())
        with open(f"{self.prefix}.lengths", "rb") as lengths, open(f"{self.prefix}.idx", "wb") as f:
            _write_index(lengths, self.sentences, f)
        Path(f"{self.prefix}.lengths").unlink()


def _write_index(lengths: BinaryIO, sentences: int, index: BinaryIO) -> None:
    """fairseq's index: a header, all lengths (int32), where each sentence begins (bytes, int64)."""
    index.write(MMapIndexedDataset.Index._HDR_MAGIC)
    index.write(struct.pack("<QBQ", 1, _dtype_header_code(WORD), sentences))
    for block in iter(lambda: lengths.read(4 * BLOCK), b""):
        index.write(block)
    lengths.seek(0)
    begin = 0
    for block in iter(lambda: lengths.read(4 * BLOCK), b""):
        ends = begin + np.cumsum(np.frombuffer(block, np.int32), dtype=np.int64) * WORD().itemsize
        index.write(np.concatenate(([begin], ends[:-1])).astype(np.int64).tobytes())
        begin = int(ends[-1])
