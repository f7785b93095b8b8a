"""Clean text to fairseq's binary data: the files that fairseq-preprocess makes of the subwords.

A training pair is left out and counted if a side has no token (``empty``), too many (``too-long``)
or too many times those of the other (``length-ratio``). The held-out sets stay whole. Their words
are cut into pieces that the training text has; characters that it lacks are unknown, and counted.
"""

import random
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary, indexed_dataset

from resmlp_mt.model_folder import SUBWORDS
from resmlp_mt.pipeline.prepare.corpora import Chunk, Corpus, chunks
from resmlp_mt.pipeline.prepare.pool import in_processes
from resmlp_mt.text import OptionError, TextSettings, mark_unused, train_subwords
from resmlp_mt_runtime.errors import say
from resmlp_mt_runtime.pieces import SPACE, Subwords
from resmlp_mt_runtime.terminal import Progress

SAMPLE = 1_000_000  # sentence pairs that subwords are learnt from
BUFFER = 1 << 22  # bytes of token numbers that are read at a time


def learn_subwords(train: Corpus, pairs: int, added: int, prefix: Path, options) -> None:
    """Write ``PREFIX.model``. The default vocabulary shrinks with the text. The last *added* of the
    *pairs*, which --augment made, bring no characters of their own."""
    size, exact = options.vocab_size or options.default_vocab_size, options.vocab_size is not None

    def learn(size: int) -> None:
        chosen = set(random.Random(1).sample(range(pairs), min(pairs, SAMPLE)))
        if not exact:
            fixed = 1 if options.coverage == 1 else 257  # <unk>, bytes
            size = min(size, fixed + fitting(lines(chosen), 2 * size))
        train_subwords(lines(chosen), prefix, size, options.coverage, exact)

    def lines(chosen: set[int]) -> Iterator[str]:
        known: set[str] = set()
        for number, pair in enumerate(train.pairs()):
            if number not in chosen:
                continue
            for line in map(bytes.decode, pair):
                if number < pairs - added:
                    known.update(line)
                    yield line
                else:
                    yield "".join(filter(known.__contains__, line))

    # its process gives the memory back when it ends: more than all else takes
    list(in_processes(1, learn, [size]))
    if not exact and (found := len(Subwords(Path(f"{prefix}.model")).pieces)) < size:
        say(f"    note: only {found} subwords, because the text is small")


def fitting(lines: Iterable[str], most: int) -> int:
    """How many subwords a text allows, counted up to *most* words: its characters and half as many
    longer ones as it has words. Few new words could be spelled if all of its own were subwords."""
    words: set[str] = set()
    for line in lines:
        words.update(line.split())
        if len(words) > most:
            break
    return len(set(SPACE).union(*words)) + len(words) // 2


class Encoder:
    """Encodes the pairs of a chunk, in a worker.

    A token has the number that SentencePiece gives it; those of fairseq are known only when all
    training text is counted. *end* is the number after the last.
    """

    def __init__(self, settings: TextSettings, options, dictionary: Path | None):
        self.settings, self.subwords = settings, settings.subwords
        self.languages = settings.source_lang, settings.target_lang
        self.max_pieces, self.max_ratio = options.max_pieces, options.max_ratio
        self.dictionary = Dictionary.load(str(dictionary)) if dictionary is not None else None
        self.end = len(self.subwords.pieces)
        self.spells = any(map(self.subwords.processor.is_byte, range(self.end)))
        self.dtype = np.min_scalar_type(self.end)

    def __call__(self, task: tuple[str, Chunk]) -> tuple[int, list[np.ndarray], Counter]:
        """How many pairs of a split stay, the tokens of both sides with *end* after each line, and
        why other pairs are left out."""
        split, chunk = task
        sides = []
        for lines in zip(*chunk):
            plain = [self.subwords.plain(line.decode("utf-8")) for line in lines]
            sides.append(self.subwords.processor.encode(plain, out_type=int, num_threads=1))
        fit: list[tuple] = []
        dropped: Counter[str] = Counter()
        for pair in zip(*sides):
            reason = self._unfit(*map(len, pair)) if split == "train" else ""
            if reason:
                dropped[reason] += 1
            else:
                fit.append(pair)
        tokens = []
        for side in zip(*fit):
            ended = chain.from_iterable((*line, self.end) for line in side)
            tokens.append(np.fromiter(ended, self.dtype))
        return len(fit), tokens, dropped

    def _unfit(self, *lengths: int) -> str:
        """Why a pair is left out; nothing if it is not."""
        shorter, longer = sorted(lengths)
        if shorter == 0:
            return "empty"
        if longer > self.max_pieces:
            return "too-long"
        return "length-ratio" if self.max_ratio and longer > self.max_ratio * shorter else ""

    def count(self, counts: np.ndarray) -> Dictionary:
        """The dictionary of a text in which each token stands *counts* times."""
        dictionary, processor = Dictionary(), self.subwords.processor
        for number, piece in enumerate(self.subwords.pieces):
            # the text may lack some bytes, and the space by itself that stands before them
            spells = self.spells and (processor.is_byte(number) or piece == SPACE)
            if number != processor.unk_id() and (counts[number] or spells):
                dictionary.add_symbol(piece, n=int(counts[number]))
        dictionary.finalize()
        return dictionary

    def keep_to(self, dictionary: Dictionary, folder: Path) -> None:
        """From now on cut words into pieces of the *dictionary*, by a model in *folder*. Others are
        steps of byte-pair encoding at which no word of the training text ends."""
        others = {
            number
            for number, piece in enumerate(self.subwords.pieces)
            if piece not in dictionary and (self.spells or len(piece) > 1)
        }
        model = folder / SUBWORDS
        model.write_bytes(mark_unused(self.settings.subword_model.read_bytes(), others))
        self.subwords = Subwords(model, self.settings.rule)


def encode(
    splits: dict[str, Corpus], pairs: int, encoder: Encoder, processes: int, folder: Path
) -> dict:
    """Write the binary data of all splits, the training text first, with *pairs* pairs in all, and
    their dictionary: the encoder's, or that of the training text. Returns what is there and what
    was left out."""
    counts: np.ndarray = np.zeros(encoder.end + 1, np.int64)
    fit: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    numbers = folder / "numbers"
    numbers.mkdir()
    train, *held_out = splits

    def read(split: str) -> None:
        tasks = ((split, each) for each in chunks(splits[split].pairs()))
        for number, sides, reasons in in_processes(processes, encoder, tasks):
            for language, tokens in zip(encoder.languages, sides):
                with open(numbers / f"{split}.{language}", "ab") as file:
                    file.write(tokens)
                if split == train:
                    np.add(counts, np.bincount(tokens, minlength=len(counts)), out=counts)
            fit[split] += number
            dropped.update(reasons)
            progress.update(number + reasons.total())

    with Progress("    encode", pairs, "pairs") as progress:
        if encoder.dictionary is not None:
            encoder.keep_to(encoder.dictionary, folder)
        read(train)
        if not fit[train]:
            why = ", ".join(f"{number} {reason}" for reason, number in dropped.items())
            raise OptionError(f"no training pair is left ({why}): see --max-pieces and --max-ratio")
        dictionary = encoder.dictionary or encoder.count(counts)
        encoder.keep_to(dictionary, folder)
        for split in held_out:
            read(split)
    unknown = {}
    for language in encoder.languages:
        dictionary.save(str(folder / f"dict.{language}.txt"))
        for split in splits:
            name = f"{split}.{language}"
            prefix = folder / f"{split}.{'-'.join(encoder.languages)}.{language}"
            unknown[name] = _write(encoder, dictionary, numbers / name, prefix)
    shutil.rmtree(numbers)
    encoder.settings.save(folder)
    found = {"dropped": dict(dropped), "types": len(dictionary), "pairs": dict(fit)}
    return {**found, "unknown": {name: of for name, of in unknown.items() if of[0]}}


def _write(
    encoder: Encoder, dictionary: Dictionary, numbers: Path, prefix: Path
) -> tuple[int, int]:
    """What fairseq's MMapIndexedDatasetBuilder writes, without a call per line. Returns how many
    tokens are unknown, and how many there are."""
    dtype = indexed_dataset.best_fitting_int_dtype(len(dictionary))
    indices = [*map(dictionary.index, encoder.subwords.pieces), dictionary.eos()]
    table, ends, position, unknown = np.array(indices, dtype), [np.array([-1])], 0, 0
    data_file = indexed_dataset.data_file_path(str(prefix))
    with open(numbers, "rb") as file, open(data_file, "wb") as data:
        while buffer := file.read(BUFFER):
            tokens = np.frombuffer(buffer, encoder.dtype)
            stored = table[tokens]
            data.write(stored)
            unknown += np.count_nonzero(stored == dictionary.unk())
            ends.append(position + np.flatnonzero(tokens == encoder.end))
            position += len(tokens)
    index_file = indexed_dataset.index_file_path(str(prefix))
    with indexed_dataset.MMapIndexedDataset.Index.writer(index_file, dtype) as index:
        index.write(np.diff(np.concatenate(ends)).tolist())
    return unknown, position
