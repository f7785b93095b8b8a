"""Files are data: nothing in a checkpoint, recipe or folder is run. Errors take one line."""

import ast
import operator
import os
import struct
import sys
from contextlib import suppress
from pathlib import Path

import fairseq_cli.eval_lm
import fairseq_cli.validate  # noqa: F401 (the two programs that call eval)
import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq import options as fairseq_options
from fairseq.data.fasta_dataset import FastaDataset
from fairseq.data.indexed_dataset import MMapIndexedDataset

from resmlp_mt.checkpoints import naming, not_larger_than, read_checkpoint
from resmlp_mt.errors import UserError, in_one_line
from resmlp_mt.fairseq_fixes import replace

# ---- eval -----------------------------------------------------------------------------------
#
# fairseq hands options such as "[(512, 3)] * 20" to eval. This can go when it does not
# (test_what_could_run_code lists its calls).

LARGEST = 10_000  # characters of such an option, and values that it stands for
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def literal(text, *_):
    """Stands for ``eval``: the value of numbers, strings, lists, tuples, dicts, their sums and
    products. Raises UserError for any other text; like ``eval``, TypeError for what is none."""
    if not isinstance(text, (str, bytes)):
        raise TypeError(f"{type(text).__name__} instead of text")
    try:
        if isinstance(text, bytes) or len(text) > LARGEST:
            raise ValueError
        return _bounded(_value(ast.parse(text.strip(), mode="eval").body))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise UserError(
            f"the option {text!r:.60} is refused, which fairseq would run: it may hold numbers, "
            f"strings, lists, sums and products, at most {LARGEST:,} values"
        ) from None


def _value(node: ast.expr):
    if not isinstance(node, ast.BinOp) or type(node.op) not in OPERATORS:
        return ast.literal_eval(node)
    left, right = _value(node.left), _value(node.right)
    if isinstance(node.op, ast.Mult):
        for one, other in ((left, right), (right, left)):
            if isinstance(one, int):
                _bounded(other, times=one)
    return _bounded(OPERATORS[type(node.op)](left, right))


def _bounded(value, times: int = 1):
    if not isinstance(value, (int, float)) and _size(value) * times > LARGEST:
        raise ValueError
    return value


def _size(value) -> int:
    if isinstance(value, dict):
        return _size([*value, *value.values()])
    if isinstance(value, (list, tuple)):
        return 1 + sum(map(_size, value))
    return len(value) if isinstance(value, (str, bytes)) else 1


for name, module in [*sys.modules.items()]:
    spec = getattr(module, "__spec__", None)  # python -m fairseq_cli.validate is __main__
    if getattr(spec, "name", name).startswith(("fairseq.", "fairseq_cli.")):
        module.eval = literal  # type: ignore[attr-defined]

# ---- checkpoints and folders ----------------------------------------------------------------


@replace(checkpoint_utils, "load_checkpoint_to_cpu")
def load_checkpoint_to_cpu(original, path, *args, **kwargs):
    """Without this a checkpoint hides a flipped bit or NaN, and its options are not only data. It
    can go when the original refuses the files of test_hostile_checkpoints.py."""
    with naming(path, "cannot be read"):
        if os.path.isfile(path):
            read_checkpoint(path, mapped=True)
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
    """Without this ``encoder_layers = 10**7`` in a checkpoint hangs, and errors do not name the
    file. It can go when the original passes ``test_sizes`` and test_one_line_errors.py."""
    models: list = []
    cfg = None
    for filename in filenames:
        with naming(filename, "holds a model that cannot be built here"):
            if state is None and os.path.isfile(filename):
                state = checkpoint_utils.load_checkpoint_to_cpu(filename, arg_overrides)
            with not_larger_than(state["model"] if state else {}):
                arguments = ([filename], arg_overrides, task, strict, suffix, num_shards, state)
                found, cfg, task = original(*arguments)
        models, state = [*models, *found], None
    return models, cfg, task


@replace(FastaDataset, "_build_index")
def build_index(original, self, path: str):
    """fairseq reads FASTA by a shell command with the file's name in it, and takes any folder with
    such names. It can go when the original passes ``test_a_folder_runs_no_shell``."""
    raise UserError(f"{path}.fasta: FASTA is not read: make binary data with fairseq-preprocess")


# ---- one line -------------------------------------------------------------------------------


@replace(fairseq_options, "parse_args_and_arch")
def parse_args_and_arch(original, parser, *args, **kwargs):
    """Without this, each of these ends in a traceback, one of them after an epoch. It can go when
    fairseq's programs refuse them (``test_options_that_are_refused``)."""
    parser.set_defaults(task=parser.get_default("task") or "translation")  # of fairseq-validate
    parsed = original(parser, *args, **kwargs)
    get = vars(parsed[0] if isinstance(parsed, tuple) else parsed).get
    for option in ("fp16", "bf16"):
        if get(option) and (get("cpu") or not torch.cuda.is_available()):
            raise UserError(f"--{option}: needs a GPU: resmlp-mt train --precision bf16 does not")
    if get("buffer_size") is None and (get("constraints") or get("diverse_beam_groups", 0) > 0):
        raise UserError("--constraints, --diverse-beam-groups: fairseq-interactive alone has them")
    literal(get("model_overrides", "{}"))
    if get("best_checkpoint_metric") == "bleu" and not get("eval_bleu", True):
        raise UserError("--best-checkpoint-metric bleu: add --eval-bleu, which computes it")
    return parsed


@replace(MMapIndexedDataset, "_do_init")
def open_data(original, self, path: str) -> None:
    """Without this a file that is cut off ends in a traceback that does not name it, perhaps after
    hours. It can go when the original passes ``test_data_that_is_cut_off``."""
    try:
        original(self, path)
        index = self._index
        end = (index._pointers + index._sizes * np.int64(index._dtype_size)).max(initial=0)
    except (ValueError, KeyError, AssertionError, OverflowError, struct.error) as error:
        # an empty file cannot be mapped
        kind = "idx" if Path(f"{path}.bin").stat().st_size else "bin"
        raise UserError(f"{path}.{kind} is damaged: prepare the data again") from error
    if end > len(self._bin_buffer):
        raise UserError(f"{path}.bin is cut off: prepare the data again")


for kind in (MMapIndexedDataset, MMapIndexedDataset.Index):

    @replace(kind, "__del__")
    def close_data(original, self) -> None:
        """Of a file that could not be opened there is nothing to close."""
        with suppress(AttributeError):
            original(self)


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
            print(f"{name}: error: {' '.join(message.split())}", file=sys.stderr)

    sys.excepthook = hook


_shorten_errors()
