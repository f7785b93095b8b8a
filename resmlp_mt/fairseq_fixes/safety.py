"""Files are data: nothing in a checkpoint, recipe or folder is run. Errors take one line."""

import os
import struct
import sys
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import fairseq_cli.eval_lm
import fairseq_cli.validate  # noqa: F401 (the two programs that call eval)
import numpy as np
import torch
from fairseq import checkpoint_utils, utils
from fairseq import options as fairseq_options
from fairseq.data.fasta_dataset import FastaDataset
from fairseq.data.indexed_dataset import MMapIndexedDataset
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.modules import SinusoidalPositionalEmbedding

from resmlp_mt.checkpoints.checking import not_larger_than
from resmlp_mt.checkpoints.files import options_of, read_checkpoint
from resmlp_mt.fairseq_fixes.messages import in_one_line, naming
from resmlp_mt.literal import literal
from resmlp_mt.patching import replace, without_examples
from resmlp_mt_runtime.errors import UserError, say

# Options such as "[(512, 3)] * 20" are read, not run. It can go when no module of fairseq calls
# eval (test_every_call_is_known).
for name, module in [*sys.modules.items()]:
    spec = getattr(module, "__spec__", None)  # python -m fairseq_cli.validate is __main__
    if getattr(spec, "name", name).startswith(("fairseq.", "fairseq_cli.")):
        module.eval = literal  # type: ignore[attr-defined]

# ---- checkpoints and folders ----------------------------------------------------------------


@replace(checkpoint_utils, "load_checkpoint_to_cpu")
def load_checkpoint_to_cpu(original, path, *args, **kwargs):
    """A checkpoint that is damaged, has NaN or more than data is refused.

    It can go when the original refuses the files of test_hostile_checkpoints.py."""
    with naming(path, "cannot be read"):
        if os.path.isfile(path):
            read_checkpoint(path, mapped=True)
        elif os.path.exists(path):  # a named pipe would be waited for
            raise UserError(f"{path} is not a regular file: give a checkpoint")
        return original(path, *args, **kwargs)


@replace(checkpoint_utils, "load_model_ensemble_and_task")
def load_model_ensemble_and_task(
    original,
    filenames,
    arg_overrides=None,
    task=None,
    strict=True,
    suffix="",
    num_shards=1,
    state=None,
):
    """A checkpoint whose options ask for a larger model than its weights is refused.

    Without this ``encoder_layers = 10**7`` hangs, and errors do not name the file. It can go when
    the original passes test_hostile_checkpoints.py and test_one_line_errors.py."""
    models: list = []
    cfg = None
    for filename in filenames:
        with naming(filename, "holds a model that cannot be built here"):
            names = filename, suffix, 0, num_shards
            stored = checkpoint_utils.get_maybe_sharded_checkpoint_filename(*names)
            if state is None and num_shards == 1 and os.path.isfile(stored):
                state = checkpoint_utils.load_checkpoint_to_cpu(stored, arg_overrides)
            own = options_of(state or {}, "model")
            name = own.get("_name") or own.get("arch")
            if name and name not in {*ARCH_MODEL_REGISTRY, *MODEL_DATACLASS_REGISTRY}:
                raise UserError(f"--arch {name} is unknown: give the --user-dir that registers it")
            # of several shards no file has all weights
            limit = not_larger_than(state["model"]) if state else nullcontext()
            with without_examples(), limit:
                arguments = ([filename], arg_overrides, task, strict, suffix, num_shards, state)
                found, cfg, task = original(*arguments)
            for each in (task, *found):
                limits = each.max_positions()
                if isinstance(limits, tuple) and min(limits) < 2:
                    positions = "--max-source-positions, --max-target-positions"
                    raise UserError(f"{positions} {limits}: give at least 2")
        models, state = [*models, *found], None
    return models, cfg, task


@replace(SinusoidalPositionalEmbedding, "__init__")
def init_sinusoids(original, self, embedding_dim, padding_idx, init_size=1024):
    """A table of sinusoids grows with the text.

    fairseq makes it for all positions that a checkpoint claims. It can go when the original passes
    ``test_many_positions``."""
    original(self, embedding_dim, padding_idx, min(init_size, 1024))


@replace(FastaDataset, "_build_index")
def build_index(original, self, path: str):
    """FASTA is refused: fairseq reads it by a shell command with the file's name in it.

    It can go when the original passes ``test_a_folder_runs_no_shell``."""
    raise UserError(f"{path}.fasta: FASTA is not supported: use fairseq-preprocess")


# ---- one line -------------------------------------------------------------------------------


@replace(fairseq_options, "parse_args_and_arch")
def parse_args_and_arch(original, parser, *args, **kwargs):
    """Options that would end in a traceback, one of them only after an epoch, are refused.

    It can go when fairseq's programs refuse them (``test_options_that_are_refused``)."""
    parser.set_defaults(task=parser.get_default("task") or "translation")  # of fairseq-validate
    parsed = original(parser, *args, **kwargs)
    get = vars(parsed[0] if isinstance(parsed, tuple) else parsed).get
    literal(get("model_overrides", "{}"))
    training, translation = get("max_update") is not None, get("task") == "translation"
    on_cpu = get("cpu") or not (torch.cuda.is_available() or get("tpu"))
    no_tpu = training and get("tpu") and utils.xm is None  # --bf16 sets it
    bf16 = "resmlp-mt train --precision bf16 does not"
    bleu, best = get("best_checkpoint_metric") == "bleu", "--best-checkpoint-metric bleu: add "
    languages = get("source_lang") and get("target_lang")
    soft = get("print_alignment") == "soft"
    only_lev = "only models of --task translation_lev use it: leave it out"
    refused = {
        f"--fp16: needs a GPU: {bf16}": training and on_cpu and get("fp16"),
        f"--amp: needs a GPU: {bf16}": training and on_cpu and get("amp"),
        f"--bf16: needs a TPU, and torch_xla: {bf16}": no_tpu and get("bf16"),
        f"--tpu: needs torch_xla: {bf16}": no_tpu,
        f"{best}--eval-bleu, which computes it": bleu and not get("eval_bleu", True),
        f"{best}--maximize-best-checkpoint-metric: else the lowest counts as the best": (
            bleu and not get("maximize_best_checkpoint_metric")
        ),
        "--constraints: only fairseq-interactive supports them": (
            get("constraints") and get("buffer_size") is None
        ),
        "--score-reference: give --print-alignment hard": get("score_reference") and soft,
        "--tokenizer moses: add --source-lang and --target-lang": (
            get("path") and get("tokenizer") == "moses" and not languages
        ),
        f"--print-step: {only_lev}": translation and get("print_step"),
        f"--retain-iter-history: {only_lev}": translation and get("retain_iter_history"),
        "--write-checkpoints-asynchronously: needs iopath, which is not installed": (
            get("write_checkpoints_asynchronously") and find_spec("iopath") is None
        ),
    }
    for said, wrong in refused.items():
        if wrong:
            raise UserError(said)
    return parsed


@replace(MMapIndexedDataset, "_do_init")
def open_data(original, self, path: str) -> None:
    """Binary data that are cut off are refused by name, at once.

    It can go when the original passes ``test_data_that_is_cut_off``."""
    try:
        original(self, path)
        index = self._index
        end = (index._pointers + index._sizes * np.int64(index._dtype_size)).max()
    except (ValueError, KeyError, AssertionError, OverflowError, struct.error) as error:
        # an empty file cannot be mapped
        kind = "idx" if Path(f"{path}.bin").stat().st_size else "bin"
        raise UserError(f"{path}.{kind} is damaged: prepare the data again") from error
    if end > len(self._bin_buffer):
        raise UserError(f"{path}.bin is cut off: prepare the data again")


# A file that could not be opened was closed, which printed a traceback; mapped files close
# themselves. It can go when test_data_that_is_cut_off passes without.
del MMapIndexedDataset.__del__, MMapIndexedDataset.Index.__del__


def _shorten_errors() -> None:
    """If this process is one of fairseq's programs, errors that are recognised take one line there.
    ``RESMLP_MT_TRACEBACK=1`` shows all of them in full."""
    program = sys.argv[0] if sys.argv else ""
    name = os.path.basename(program)
    if os.path.basename(os.path.dirname(program)) == "fairseq_cli":
        name = "fairseq-" + os.path.splitext(name)[0].replace("_", "-")
    if not name.startswith("fairseq-") or os.environ.get("RESMLP_MT_TRACEBACK"):
        return
    show = sys.excepthook

    def hook(kind, error, traceback):
        message = in_one_line(error)
        if message is None:
            show(kind, error, traceback)
        else:
            say(f"{name}: error: {message}")

    sys.excepthook = hook


_shorten_errors()
