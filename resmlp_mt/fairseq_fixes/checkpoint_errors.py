"""One line for a checkpoint that cannot be used, with its file and what to do.

Without this, fairseq ends in a traceback that seldom names the file, loads a flipped bit unseen
(PyTorch compares no checksum), and translates with weights that are NaN. It can go when the
originals refuse what test_hostile_checkpoints.py hands them.
"""

import contextlib
import os
import pickle
from typing import Iterator

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from resmlp_mt.errors import UserError
from resmlp_mt.fairseq_fixes.checkpoint_file import check_finite, check_records
from resmlp_mt.fairseq_fixes.evaluated_options import check_options
from resmlp_mt.fairseq_fixes.replacing import replace_once

_MISFITS = "Error(s) in loading state_dict", "please ensure that the architectures"


@replace_once(checkpoint_utils, "load_checkpoint_to_cpu")
def load_checkpoint_to_cpu(original, path, *args, **kwargs):
    """
    Raises:
        UserError: for a file that is damaged, carries more than data, is no checkpoint of fairseq,
            or has weights that are NaN or options that would be run.
        OSError: if it cannot be opened.
    """
    with naming(path, "is damaged, or no checkpoint of fairseq", "copy or make it again"):
        if os.path.isfile(path):
            check_records(path)
        state = original(path, *args, **kwargs)
        if isinstance(state["model"], dict):
            check_finite(state["model"], path)
        check_options([state.get("args"), state.get("cfg")], path)
    return state


@replace_once(checkpoint_utils, "load_model_ensemble_and_task")
def load_model_ensemble_and_task(original, filenames, arg_overrides=None, task=None, *args, **kw):
    """
    Raises:
        UserError: for a model that cannot be built from its file here.
    """
    models, cfg = [], None
    for filename in filenames:
        with naming(
            filename,
            "holds a model that cannot be built here",
            "its options are damaged, of another version, or do not go with the data",
        ):
            found, cfg, task = original([filename], arg_overrides, task, *args, **kw)
        models += found
    return models, cfg, task


@replace_once(Trainer, "load_checkpoint")
def load_checkpoint(original, self, filename, *args, **kwargs):
    """
    Raises:
        UserError: for a checkpoint that this training cannot resume from.
    """
    with naming(
        filename,
        "cannot be resumed from",
        "it is damaged or of another version, optimizer or task: --finetune-from-model takes its "
        "weights alone",
    ):
        extra_state = original(self, filename, *args, **kwargs)
        if extra_state is not None:
            # what fairseq reads from it next, when the file is no longer known
            place = extra_state["train_iterator"]
            for name in ("epoch", "iterations_in_epoch"):
                if not isinstance(place.get(name, 0), int):
                    raise TypeError(f"{name} {place[name]!r}")
            if place["epoch"] < 1:
                raise ValueError(f"epoch {place['epoch']}")
    return extra_state


@contextlib.contextmanager
def naming(path, wrong: str, remedy: str) -> Iterator[None]:
    """What goes wrong inside becomes one line with the file's name.

    Args:
        path: the checkpoint.
        wrong, remedy: for the message, if the error is none of those below.
    """
    try:
        yield
    except UserError as error:
        if str(path) in str(error):
            raise
        raise UserError(f"{path}: {error}") from error
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} is no checkpoint, or one that carries more than data (such as code): "
            "refused, and nothing in it was run"
        ) from error
    except OSError as error:
        if str(error).startswith("Model file not found"):
            raise UserError(f"{error}: give a checkpoint that is there") from error
        if not error.strerror or error.filename in (None, path, str(path)):
            raise
        raise UserError(
            f"{path} needs {error.filename} ({error.strerror}): give the data folder that it was "
            "trained on"
        ) from error
    except Exception as error:  # what a damaged file leads to is beyond listing
        if any(words in str(error) for words in _MISFITS):
            raise UserError(
                f"{path} does not fit the model: it was trained with another architecture, other "
                "options or another dictionary"
            ) from error
        first_line = " ".join(str(error).split("\n")[0].split())[:120]
        raise UserError(
            f"{path} {wrong} ({type(error).__name__}: {first_line}): {remedy}"
        ) from error
