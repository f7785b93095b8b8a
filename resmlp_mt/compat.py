"""What fairseq needs under today's Python and PyTorch, done once when this package is imported."""

import argparse
import functools
import os
import sys

import fairseq
import numpy as np
import torch
from fairseq import binarizer, checkpoint_utils, file_chunker_utils
from fairseq.data import data_utils, dictionary
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE
from fairseq.file_chunker_utils import Chunker
from fairseq.file_io import PathManager
from fairseq.nan_detector import NanDetector
from fairseq.ngram_repeat_block import NGramRepeatBlock
from fairseq.search import DiverseBeamSearch
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from fairseq.utils import import_user_module
from fairseq_cli import interactive

from resmlp_mt import divergence, line_ends, plain_options, safe_saving
from resmlp_mt.checkpoint_file import check_file, check_finite
from resmlp_mt.errors import UserError
from resmlp_mt.generator import ResMLPGenerator
from resmlp_mt.model import ResMLPModel
from resmlp_mt.pipeline.corpus import one_line
from resmlp_mt.pipeline.subwords import plain_pieces

PRECISIONS = ("highest", "high", "medium")


def _replace_once(owner, name: str):
    """A decorator: the function, which is given the original first, stands for ``owner.name``.

    Another import of this package finds it replaced and leaves it.
    """

    def install(function):
        original = getattr(owner, name)
        if hasattr(original, "replaced_by_resmlp_mt"):
            return

        @functools.wraps(original)
        def replaced(*args, **kwargs):
            return function(original, *args, **kwargs)

        replaced.replaced_by_resmlp_mt = True
        setattr(owner, name, replaced)

    return install


def allow_translation_checkpoints() -> None:
    """Let PyTorch's weights-only loader read the options in a fairseq checkpoint.

    A translation checkpoint holds its options in an ``argparse.Namespace`` and, after
    ``--eval-bleu``, n-gram counts in NumPy arrays of int64: neither is on the loader's list. Both
    are plain data; whatever else a file asks to have built is still refused.
    """
    rebuild_array = np.empty(0).__reduce__()[0]  # its module's name depends on NumPy's version
    torch.serialization.add_safe_globals(
        [argparse.Namespace, rebuild_array, np.ndarray, np.dtype, np.dtypes.Int64DType]
    )


def check_checkpoints() -> None:
    """Have fairseq refuse a checkpoint that is damaged, or whose weights are no numbers.

    PyTorch compares no checksum, so that a flipped bit goes into the translations unseen; weights
    that are NaN translate into something, too. What fairseq's models would hand from a checkpoint's
    options to ``eval`` is read without running it.
    """
    plain_options.install()

    @_replace_once(checkpoint_utils, "load_checkpoint_to_cpu")
    def checking(load_checkpoint_to_cpu, path, *args, **kwargs):
        check_file(path)
        state = load_checkpoint_to_cpu(path, *args, **kwargs)
        if isinstance(state.get("model"), dict):
            check_finite(state["model"], path)
        return state


def keep_last_batch() -> None:
    """Have fairseq translate, score and train on every sentence.

    fairseq-fixed 0.12.3.1 drops a data set's last batch if its size is no multiple of
    ``--required-batch-size-multiple`` (8): up to 7 sentences of a test set go missing from
    fairseq-generate's output and from its BLEU.
    """

    @_replace_once(data_utils, "batch_by_size")
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
    scripts do: see :mod:`resmlp_mt.line_ends`.

    What SentencePiece makes of a line in fairseq-interactive is what subwords.py makes of it.
    """
    _replace_once(interactive, "buffered_read")(line_ends.buffered_read)
    main = sys.modules["__main__"]
    if getattr(getattr(main, "__spec__", None), "name", None) == interactive.__name__:
        _replace_once(main, "buffered_read")(line_ends.buffered_read)  # python -m
    for module in (file_chunker_utils, binarizer, dictionary):
        _replace_once(module, "find_offsets")(line_ends.find_offsets)
    _replace_once(Chunker, "__enter__")(line_ends.open_chunk)

    @_replace_once(SentencepieceBPE, "encode")
    def as_in_training(encode, self, line):
        return " ".join(plain_pieces(encode(self, one_line(line)).split(" "), self.sp))


def diverse_beams_by_row() -> None:
    """Have diverse beam search work on more than one batch.

    fairseq 0.12 keeps its groups' overlaps by row of the batch, but looks them up by the sentence's
    number in the data set: from the second batch on that is out of range, or another sentence's.
    """

    @_replace_once(DiverseBeamSearch, "step")
    def by_row(
        step, self, number, lprobs, scores, prev_output_tokens=None, original_batch_idxs=None
    ):
        if original_batch_idxs is not None:
            if number == 0:
                self.first_batch_idxs = original_batch_idxs
            same = original_batch_idxs.unsqueeze(1) == self.first_batch_idxs
            original_batch_idxs = same.int().argmax(dim=1)
        return step(self, number, lprobs, scores, prev_output_tokens, original_batch_idxs)


def block_repeated_ngrams() -> None:
    """Have ``--no-repeat-ngram-size`` work on a CPU.

    There fairseq 0.12 takes a hypothesis's last words from the end of its whole buffer, which is
    padding until the last steps, and so finds nothing repeated.
    """

    @_replace_once(NGramRepeatBlock, "forward")
    def on_words_so_far(forward, self, tokens, lprobs, bsz, beam_size, step):
        if not self.use_extension:
            tokens = tokens[:, : step + 1]
        return forward(self, tokens, lprobs, bsz, beam_size, step)


def save_whole_checkpoints() -> None:
    """Have a run that is killed, or whose disk is full, leave whole checkpoints only.

    See :mod:`resmlp_mt.safe_saving`.
    """
    _replace_once(checkpoint_utils, "torch_persistent_save")(safe_saving.save)
    _replace_once(PathManager, "copy")(safe_saving.copy)


def search_with_own_generator() -> None:
    """Have fairseq's tasks build a :class:`ResMLPGenerator` where it can do what is asked for."""

    @_replace_once(FairseqTask, "build_generator")
    def building(build_generator, self, models, args, seq_gen_cls=None, *others, **kwargs):
        # alignments need attention weights, which fairseq's generator for them collects
        with_alignment = getattr(args, "print_alignment", False)
        ours = len(models) == 1 and isinstance(models[0], ResMLPModel)
        if seq_gen_cls is None and ours and not with_alignment:
            seq_gen_cls = ResMLPGenerator
        return build_generator(self, models, args, seq_gen_cls, *others, **kwargs)


def forget_translated_sentences() -> None:
    """Let go of sentences that are translated.

    fairseq keeps the iterator over every data set that could be gone through again, for the next
    epoch. That is of use for the splits that a task has loaded. fairseq-interactive and the hub
    interface make a data set of each few lines, and kept them all.
    """

    @_replace_once(FairseqTask, "can_reuse_epoch_itr")
    def can_reuse_epoch_itr(original, task, dataset):
        loaded = any(dataset is split for split in task.datasets.values())
        return loaded and original(task, dataset)


def explain_divergence() -> None:
    """Have fairseq say where numbers stopped being finite, and warn of Adagrad without warm-up.

    See :mod:`resmlp_mt.divergence`.
    """
    _replace_once(NanDetector, "add_hooks")(divergence.add_hooks)
    _replace_once(Trainer, "_build_optimizer")(divergence.build_optimizer)


def set_matmul_precision() -> None:
    """Follow ``RESMLP_MT_MATMUL_PRECISION``: how float32 matrix products are computed.

    ``highest`` (PyTorch's default), ``high`` or ``medium``, see
    ``torch.set_float32_matmul_precision``. On a CPU with bfloat16 units (AMX) ``medium`` multiplies
    in bfloat16 and adds in float32; weights, activations and everything else stay float32.

    Raises:
        UserError: for another value.
    """
    precision = os.environ.get("RESMLP_MT_MATMUL_PRECISION")
    if not precision:
        return
    if precision not in PRECISIONS:
        raise UserError(
            f"RESMLP_MT_MATMUL_PRECISION={precision}: choose one of {', '.join(PRECISIONS)}"
        )
    torch.set_float32_matmul_precision(precision)


def remember_user_dir(package_dir: str) -> None:
    """Tell fairseq that this package is imported, under each path it may look for it by.

    fairseq resolves ``--user-dir resmlp_mt`` against the working directory, then against the folder
    that it is itself installed in, and refuses a second path to a package that it knows.
    """
    seen = getattr(import_user_module, "memo", set())
    beside_fairseq = os.path.join(
        os.path.dirname(fairseq.__file__), "..", os.path.basename(package_dir)
    )
    for path in (package_dir, beside_fairseq):
        if os.path.realpath(path) == os.path.realpath(package_dir):
            seen.add(os.path.abspath(path))
            seen.add(path)
    import_user_module.memo = seen
