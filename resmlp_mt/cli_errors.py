"""One-line errors from fairseq's command-line programs, for input that their user can mend.

Only exceptions that are recognised are shortened, and only in a program of fairseq's: everything
else keeps its traceback, and ``RESMLP_MT_TRACEBACK=1`` shows it always.
"""

import os
import pickle
import re
import sys
from typing import Optional

from resmlp_mt.errors import UserError

_TOO_LONG = re.compile(
    r"Size of sample #(\S+) is invalid \(=(.+?)\) since max_positions=(.+?), skip this example"
)


def _local(traceback, function: str, name: str):
    """A local variable of the innermost call of a *function* that has it, or None."""
    found = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == function:
            found = traceback.tb_frame.f_locals.get(name, found)
        traceback = traceback.tb_next
    return found


def explain(error: BaseException) -> Optional[str]:
    """One line for what the user can mend, or None for any other error."""
    text = str(error)
    if isinstance(error, UserError):
        return text
    too_long = _TOO_LONG.search(text)
    if too_long:
        number, size, limit = too_long.groups()
        return (
            f"sentence {number} is longer than the model's positions (tokens {size}, source and "
            f"target limits {limit}): train with a higher --max-source-positions and "
            "--max-target-positions, or leave such sentences out with "
            "--skip-invalid-size-inputs-valid-test"
        )
    path = _local(error.__traceback__, "load_checkpoint_to_cpu", "path")
    if path is not None:
        if isinstance(error, pickle.UnpicklingError):
            return (
                f"{path} is no checkpoint, or one that carries more than data (such as code): "
                "refused, and nothing in it was run"
            )
        if _local(error.__traceback__, "load", "pickle_load_args") is not None:
            # what a damaged file makes of torch.load is beyond listing
            return f"{path} is damaged or cut off: copy or make it again"
    if "Error(s) in loading state_dict" in text or "please ensure that the architectures" in text:
        path = _local(error.__traceback__, "load_model_ensemble_and_task", "filename")
        path = path or _local(error.__traceback__, "load_checkpoint", "filename")
        return (
            f"{path or 'the checkpoint'} does not fit the model: it was trained with another "
            "architecture or other options"
        )
    if isinstance(error, UnicodeDecodeError):
        return f"invalid UTF-8 in the input ({error.reason}): convert it to UTF-8"
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return text  # fairseq's own, such as "Dataset not found: train (data-bin)"
    if isinstance(error, OSError) and text.startswith("Model file not found"):
        return f"{text}: give a checkpoint that is there"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return None


def install() -> None:
    """Shorten recognised errors if this process is one of fairseq's programs."""
    program = sys.argv[0] if sys.argv else ""
    name = os.path.basename(program)
    if os.path.basename(os.path.dirname(program)) == "fairseq_cli":
        name = "fairseq-" + os.path.splitext(name)[0].replace("_", "-")
    if not name.startswith("fairseq-") or os.environ.get("RESMLP_MT_TRACEBACK"):
        return
    show = sys.excepthook

    def hook(kind, error, traceback):
        message = explain(error)
        if message is None:
            show(kind, error, traceback)
        else:
            print(f"{name}: error: {' '.join(message.split())}", file=sys.stderr)

    sys.excepthook = hook
