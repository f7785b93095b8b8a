"""What is mended in how fairseq reads text and keeps data sets."""

import sys

import numpy as np
from fairseq import binarizer, file_chunker_utils
from fairseq.data import data_utils, dictionary
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.file_chunker_utils import Chunker
from fairseq.tasks import FairseqTask
from fairseq_cli import interactive

from resmlp_mt.compat import line_ends
from resmlp_mt.compat.replacing import replace_once
from resmlp_mt.text.subwords import one_line_of_text, plain_pieces


def keep_last_batch() -> None:
    """Have fairseq translate, score and train on every sentence.

    fairseq-fixed 0.12.3.1 drops a data set's last batch if its size is no multiple of
    ``--required-batch-size-multiple`` (8): up to 7 sentences of a test set go missing from
    fairseq-generate's output and from its BLEU.
    """

    @replace_once(data_utils, "batch_by_size")
    def keeping(batch_by_size, indices, *args, **kwargs):
        if not isinstance(indices, np.ndarray):
            indices = np.fromiter(indices, dtype=np.int64, count=-1)
        fixed_shapes = kwargs.get("fixed_shapes", args[5] if len(args) > 5 else None)
        if fixed_shapes is not None:
            return batch_by_size(indices, *args, **kwargs)  # this way drops nothing
        batches = batch_by_size(indices, *args, **kwargs) if len(indices) else []
        batched = sum(len(batch) for batch in batches)
        # the batches are consecutive pieces of indices
        return batches if batched == len(indices) else [*batches, indices[batched:]]


def end_lines_at_line_feeds() -> None:
    """Have fairseq-interactive and fairseq-preprocess (with ``--user-dir``) read lines as the
    scripts do: see :mod:`resmlp_mt.compat.line_ends`.

    What SentencePiece makes of a line in fairseq-interactive is what subwords.py makes of it.
    """
    replace_once(interactive, "buffered_read")(line_ends.buffered_read)
    main = sys.modules["__main__"]
    if getattr(getattr(main, "__spec__", None), "name", None) == interactive.__name__:
        replace_once(main, "buffered_read")(line_ends.buffered_read)  # python -m
    for module in (file_chunker_utils, binarizer, dictionary):
        replace_once(module, "find_offsets")(line_ends.find_offsets)
    replace_once(Chunker, "__enter__")(line_ends.open_chunk)

    @replace_once(SentencepieceBPE, "encode")
    def as_in_training(encode, self, line):
        return " ".join(plain_pieces(encode(self, one_line_of_text(line)).split(" "), self.sp))


def forget_translated_sentences() -> None:
    """Let go of sentences that are translated.

    fairseq keeps the iterator over every data set that could be gone through again, for the next
    epoch. That is of use for the splits that a task has loaded. fairseq-interactive and the hub
    interface make a data set of each few lines, and kept them all.
    """

    @replace_once(FairseqTask, "can_reuse_epoch_itr")
    def can_reuse_epoch_itr(original, task, dataset):
        loaded = any(dataset is split for split in task.datasets.values())
        return loaded and original(task, dataset)
