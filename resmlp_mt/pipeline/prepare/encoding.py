"""Clean text to subwords, and these to fairseq's binary data as fairseq-preprocess does it.

A training pair is left out and counted if a side has no piece (``empty``), too many (``too-long``)
or too many times those of the other (``length-ratio``). The held-out sets stay whole.
"""

import random
import shutil
import sys
from collections import Counter
from pathlib import Path

from fairseq.binarizer import FileBinarizer, VocabularyDatasetBinarizer
from fairseq.data import Dictionary

from resmlp_mt.errors import OptionError
from resmlp_mt.model_folder import TextSettings
from resmlp_mt.pipeline.prepare.corpora import Chunk, Corpus, chunks
from resmlp_mt.pipeline.prepare.pool import workers
from resmlp_mt.progress import Progress
from resmlp_mt.text.subwords import train_subwords

SAMPLE = 1_000_000  # sentence pairs that subwords are learnt from
FEW = 1 << 20  # bytes that one process turns into numbers


def learn_subwords(train: Corpus, pairs: int, prefix: Path, options) -> None:
    """Write ``PREFIX.model``. The default vocabulary shrinks to what the text allows."""

    def learn(size: int) -> None:
        chosen = set(random.Random(options.seed).sample(range(pairs), min(pairs, SAMPLE)))
        some = (pair for number, pair in enumerate(train.pairs()) if number in chosen)
        lines = (side.decode() for pair in some for side in pair)
        train_subwords(lines, prefix, size, options.coverage)

    # a process of its own gives the memory back, which is more than all else takes
    with workers(1, learn) as learn_all:
        size = options.vocab_size or options.default_vocab_size
        try:
            list(learn_all([size]))
        except OptionError as error:
            if options.vocab_size or not error.most:
                raise
            print(f"    note: {error.most} subwords: the text has none more", file=sys.stderr)
            list(learn_all([error.most]))


class Encoder:
    """Splits the lines of a chunk into pieces, in a worker."""

    def __init__(self, settings: TextSettings, max_pieces: int, max_ratio: float | None):
        self.settings, self.subwords = settings, settings.subwords
        self.languages = settings.source_lang, settings.target_lang
        self.plain = [settings.plain(language) for language in self.languages]
        self.max_pieces, self.max_ratio = max_pieces, max_ratio

    def __call__(self, task: tuple[str, Chunk]) -> tuple[int, str, str, Counter, Counter]:
        """How many pairs are kept, the pieces of both sides, the count of each piece, and why
        other pairs were left out."""
        split, chunk = task
        kept, counts, dropped = [], Counter(), Counter()
        for pair in chunk:
            sides = [line.decode("utf-8") for line in pair]
            if split != "train":  # the training text is clean
                sides = [plain(side) for plain, side in zip(self.plain, sides)]
            pieces = [self.subwords.encode(side) for side in sides]
            reason = self._unfit(pieces) if split == "train" else ""
            if reason:
                dropped[reason] += 1
                continue
            kept.append(pieces)
            for side in pieces if split == "train" else ():
                counts.update(side.split())
        source, target = ("".join(f"{pieces[side]}\n" for pieces in kept) for side in (0, 1))
        return len(kept), source, target, counts, dropped

    def _unfit(self, pieces: list[str]) -> str:
        """Why a pair is left out; nothing if it is not."""
        shorter, longer = sorted(len(side.split()) for side in pieces)
        if shorter == 0:
            return "empty"
        if longer > self.max_pieces:
            return "too-long"
        return "length-ratio" if self.max_ratio and longer > self.max_ratio * shorter else ""


def encode(
    splits: dict[str, Corpus],
    pairs: int,
    encoder: Encoder,
    processes: int,
    folder: Path,
    dictionary: Path | None = None,
) -> dict:
    """Write the binary data of all splits, *pairs* together, and their dictionary: a given one, or
    that of the training text. Returns what there is and was left out."""
    counts, kept, dropped = Counter(), Counter(), Counter()
    pieces = folder / "pieces"
    pieces.mkdir()
    with (
        workers(processes, encoder) as encode_all,
        Progress("    encode", pairs, "pairs") as progress,
    ):
        for split, corpus in splits.items():
            tasks = ((split, chunk) for chunk in chunks(corpus.pairs()))
            for number, *texts, counted, reasons in encode_all(tasks):
                for language, text in zip(encoder.languages, texts):
                    with open(pieces / f"{split}.{language}", "a", encoding="utf-8") as file:
                        file.write(text)
                kept[split] += number
                dropped += reasons
                counts.update(counted)
                progress.update(number + reasons.total())
    if not kept["train"]:
        raise OptionError(
            f"no training pair is left ({', '.join(f'{n} {why}' for why, n in dropped.items())}): "
            "see --max-pieces and --max-ratio"
        )
    if dictionary is None:
        words, processor = Dictionary(), encoder.subwords.processor
        counts.update(dict.fromkeys(encoder.subwords.bytes, 0))  # the text may lack some
        for piece, count in counts.items():
            if processor.piece_to_id(piece) != processor.unk_id():
                words.add_symbol(piece, n=count)
        words.finalize()
    else:
        words = Dictionary.load(str(dictionary))
    binarizer = VocabularyDatasetBinarizer(words, append_eos=True)
    for language in encoder.languages:
        words.save(str(folder / f"dict.{language}.txt"))
        for split in splits:
            text = pieces / f"{split}.{language}"
            FileBinarizer.multiprocess_dataset(
                *(str(text), "mmap", binarizer),
                str(folder / f"{split}.{'-'.join(encoder.languages)}.{language}"),
                vocab_size=len(words),
                num_workers=processes if text.stat().st_size > FEW else 1,
            )
    shutil.rmtree(pieces)
    encoder.settings.save(folder)
    return {"dropped": dict(dropped), "types": len(words), "pairs": dict(kept)}
