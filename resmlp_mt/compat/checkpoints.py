"""What is mended in how fairseq reads and writes checkpoints."""

import argparse
from typing import Dict

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq.optim import FairseqOptimizer
from fairseq.trainer import Trainer

from resmlp_mt.compat import plain_arrays, plain_options, safe_saving
from resmlp_mt.compat.checkpoint_file import check_file, check_finite
from resmlp_mt.compat.replacing import replace_once
from resmlp_mt.errors import UserError


def allow_translation_checkpoints() -> None:
    """Let PyTorch's weights-only loader read the options in a fairseq checkpoint.

    A translation checkpoint holds its options in an ``argparse.Namespace`` and, after
    ``--eval-bleu``, n-gram counts in NumPy arrays of int64: neither is on the loader's list. Both
    are plain data; whatever else a file asks to have built is still refused.
    """
    torch.serialization.add_safe_globals([argparse.Namespace])
    plain_arrays.allow()


def check_checkpoints() -> None:
    """Have fairseq refuse a checkpoint that is damaged, or whose weights are no numbers.

    PyTorch compares no checksum, so that a flipped bit goes into the translations unseen; weights
    that are NaN translate into something, too. What fairseq's models would hand from a checkpoint's
    options to ``eval`` is read without running it.
    """
    plain_options.install()

    @replace_once(checkpoint_utils, "load_checkpoint_to_cpu")
    def checking(load_checkpoint_to_cpu, path, *args, **kwargs):
        check_file(path)
        state = load_checkpoint_to_cpu(path, *args, **kwargs)
        if isinstance(state.get("model"), dict):
            check_finite(state["model"], path)
        return state


def need_optimizer_state() -> None:
    """Have a training go on with its optimizer's state, and that of numbers, or not at all.

    From a file without one (of ``--no-save-optimizer-state``, averaged, pruned) fairseq 0.12 takes
    the weights and the place in the data, says nothing, and counts updates from 0: warm-up and
    Adagrad's sums begin again in the middle of a run. From a state that is NaN all weights are NaN
    after one update, and are saved.
    """

    @replace_once(Trainer, "load_checkpoint")
    def load_checkpoint(load, self, filename, reset_optimizer=False, *args, **kwargs):
        extra_state = load(self, filename, reset_optimizer, *args, **kwargs)
        # a folded model refuses to train by itself, and says why
        if extra_state is None or reset_optimizer or getattr(self.cfg.model, "folded", False):
            return extra_state
        if self.get_num_updates() != self._optim_history[-1]["num_updates"]:
            raise UserError(
                f"{filename} has no optimizer's state: training cannot go on from it: "
                "--finetune-from-model takes its weights alone (and --reset-optimizer its place in "
                "the data, too)"
            )
        check_finite(_optimizer_state(self.optimizer), filename)
        return extra_state


def _optimizer_state(optimizer: FairseqOptimizer) -> Dict[str, object]:
    """What the optimizer keeps for each parameter, tensors or not, by names to tell a user."""
    # a composite optimizer has no state of its own, but those of its parts
    of_parameters = getattr(optimizer.optimizer, "state", {}).values()
    return {
        f"the optimizer's state {number}.{name}": value
        for number, values in enumerate(of_parameters)
        for name, value in values.items()
    }


def save_whole_checkpoints() -> None:
    """Have a run that is killed, or whose disk is full, leave whole checkpoints only.

    See :mod:`resmlp_mt.compat.safe_saving`.
    """
    replace_once(checkpoint_utils, "torch_persistent_save")(safe_saving.save)
    replace_once(PathManager, "copy")(safe_saving.copy)
