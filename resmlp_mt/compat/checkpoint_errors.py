"""One line for what goes wrong while fairseq loads a checkpoint: its file and what to do."""

import pickle
from typing import Optional

from resmlp_mt.errors import UserError


def local(traceback, function: str, name: str):
    """A local variable of the innermost call of a *function* that has it, or None."""
    found = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == function:
            found = traceback.tb_frame.f_locals.get(name, found)
        traceback = traceback.tb_next
    return found


def calls(traceback) -> set:
    """Names of the functions on the way to the error."""
    names = set()
    while traceback is not None:
        names.add(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    return names


def explain(error: BaseException) -> Optional[str]:
    """One line, or None if no checkpoint was being loaded, or the file cannot be opened."""
    if not isinstance(error, Exception):
        return None
    if isinstance(error, OSError) and error.strerror:
        return _needing(error)
    # from the inside out
    for step in (_reading, _building, _resuming):
        message = step(error)
        if message is not None:
            return message
    return None


def _needing(error: OSError) -> Optional[str]:
    path = local(error.__traceback__, "load_model_ensemble_and_task", "filename")
    if path is None or error.filename in (None, path):
        return None
    return (
        f"{path} needs {error.filename} ({error.strerror}): give the data folder that it was "
        "trained on"
    )


def _reading(error: Exception) -> Optional[str]:
    path = local(error.__traceback__, "load_checkpoint_to_cpu", "path")
    if path is None or isinstance(error, UserError):
        return path and _with_file(error, path)
    if isinstance(error, pickle.UnpicklingError):
        return (
            f"{path} is no checkpoint, or one that carries more than data (such as code): "
            "refused, and nothing in it was run"
        )
    if local(error.__traceback__, "load", "pickle_load_args") is not None:
        # what a damaged file makes of torch.load is beyond listing
        return f"{path} is damaged or cut off: copy or make it again"
    return f"{path} is not a fairseq checkpoint of a kind known here ({_said(error)})"


def _building(error: Exception) -> Optional[str]:
    path = local(error.__traceback__, "load_model_ensemble_and_task", "filename")
    if path is None:
        return None
    if isinstance(error, UserError):
        return _with_file(error, path)
    if _misfits(error):
        return _does_not_fit(path)
    if str(error).startswith("Model file not found"):
        return f"{error}: give a checkpoint that is there"
    return (
        f"{path}: the model in it cannot be built here ({_said(error)}): its options are damaged, "
        "of another version, or do not go with the data"
    )


def _resuming(error: Exception) -> Optional[str]:
    path = local(error.__traceback__, "load_checkpoint", "filename")  # in fairseq's Trainer
    outer = local(error.__traceback__, "load_checkpoint", "checkpoint_path")
    if isinstance(error, UserError):
        return path and _with_file(error, path)
    if _misfits(error):
        return _does_not_fit(path or outer)
    if path is None and (outer is None or "get_train_iterator" in calls(error.__traceback__)):
        return None
    return (
        f"{path or outer}: training cannot go on from it ({_said(error)}): it is damaged or of "
        "another version, optimizer or task; --finetune-from-model takes its weights alone"
    )


def _misfits(error: Exception) -> bool:
    said = "Error(s) in loading state_dict", "please ensure that the architectures"
    return any(words in str(error) for words in said)


def _does_not_fit(path: Optional[str]) -> str:
    return (
        f"{path or 'the checkpoint'} does not fit the model: it was trained with another "
        "architecture or other options"
    )


def _with_file(error: Exception, path: str) -> str:
    return str(error) if str(path) in str(error) else f"{path}: {error}"


def _said(error: Exception) -> str:
    """Its kind and the first line of its text, cut where it is long."""
    text = " ".join(str(error).split("\n")[0].split())
    return f"{type(error).__name__}: {text[:120]}" if text else type(error).__name__
