"""The binary data set of fairseq, written as a stream.

The builder of fairseq keeps a Python list of all lengths. This one keeps nothing, and numbers the
words when their frequencies are known, after they have been written. What it leaves is byte for
byte what ``fairseq-preprocess --joined-dictionary`` makes of the same pieces.

The words of a sentence are written as the numbers that SentencePiece gives its pieces. Its end is
the first number that is free. :meth:`DataWriter.finish` puts the numbers of fairseq in their place.
"""

import struct
from pathlib import Path
from typing import Optional, Tuple

import numpy as np
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset, _dtype_header_code
from sentencepiece import SentencePieceProcessor

WORD = np.uint16  # fairseq's choice for a dictionary of less than 65,500 words
MAX_VOCAB = 65_000
BLOCK = 1 << 20  # words or sentences renumbered at a time


def make_dictionary(
    processor: SentencePieceProcessor, counts: np.ndarray, kept: Optional[Path] = None
) -> Tuple[Dictionary, np.ndarray]:
    """The pieces of the training text, the most frequent first, as fairseq orders them.

    Args:
        counts: of each piece in both sides of the training text, by the number of SentencePiece.
        kept: a dictionary of other data to take in place of it. Pieces that it does not have are
            unknown words.

    Returns:
        the dictionary, and by the number of SentencePiece that of fairseq, the end of a sentence
        included (:data:`WORD`).
    """
    pieces = processor.id_to_piece(list(range(processor.get_piece_size())))
    if kept is not None:
        dictionary = Dictionary.load(str(kept))
    else:
        dictionary = Dictionary()
        for number, piece in enumerate(pieces):
            if counts[number] and number != processor.unk_id():
                dictionary.add_symbol(piece, n=int(counts[number]))
        dictionary.finalize()
    return dictionary, np.array([*map(dictionary.index, pieces), dictionary.eos()], WORD)


class DataWriter:
    """One side of one split: ``PREFIX.bin`` and, when it is finished, ``PREFIX.idx``."""

    def __init__(self, prefix: Path):
        self.bin, self.lengths = Path(f"{prefix}.bin"), Path(f"{prefix}.lengths")
        self.index = Path(f"{prefix}.idx")
        for path in (self.bin, self.lengths):
            path.touch()

    def add(self, words: np.ndarray, lengths: np.ndarray) -> None:
        """Sentences one behind the other.

        Args:
            words: the numbers of SentencePiece (:data:`WORD`) with the end of each sentence.
            lengths: words of each sentence (int32).
        """
        with open(self.bin, "ab") as file:
            file.write(words.tobytes())
        with open(self.lengths, "ab") as file:
            file.write(lengths.tobytes())

    def finish(self, numbers: np.ndarray) -> None:
        """Put the numbers of fairseq in place and write the index.

        Args:
            numbers: from :func:`make_dictionary`.
        """
        with open(self.bin, "r+b") as file:
            while block := file.read(BLOCK * WORD().itemsize):
                file.seek(-len(block), 1)
                file.write(numbers[np.frombuffer(block, WORD)].tobytes())
        sentences = self.lengths.stat().st_size // 4
        with open(self.lengths, "rb") as lengths, open(self.index, "wb") as index:
            # a header, all lengths (int32), where each sentence begins (bytes, int64)
            index.write(MMapIndexedDataset.Index._HDR_MAGIC)
            index.write(struct.pack("<QBQ", 1, _dtype_header_code(WORD), sentences))
            while block := lengths.read(4 * BLOCK):
                index.write(block)
            lengths.seek(0)
            begin = 0
            while block := lengths.read(4 * BLOCK):
                sizes = np.frombuffer(block, np.int32).astype(np.int64) * WORD().itemsize
                begins = begin + np.cumsum(sizes) - sizes
                index.write(begins.tobytes())
                begin = int(begins[-1] + sizes[-1])
        self.lengths.unlink()
