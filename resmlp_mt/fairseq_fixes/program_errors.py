"""One-line errors from the command-line programs of fairseq, for input that their user can mend.

Only exceptions that are recognised are shortened, and only in a program of fairseq: everything else
keeps its traceback, and ``RESMLP_MT_TRACEBACK=1`` always shows it. Without this, a user reads the
reason on the last line of some forty. It can go when these programs print one line themselves.
"""

import os
import re
import sys
from typing import Optional

from resmlp_mt.errors import UserError

_TOO_LONG = re.compile(
    r"Size of sample #(\S+) is invalid \(=(.+?)\) since max_positions=(.+?), skip this example"
)
_NUMPY = re.compile(r"np\.\w+\((.+?)\)")
# gloo, which joins processes on CPUs, has lost one of them
_GONE = re.compile(r"Connection \w+ by peer|Broken pipe")


def explain(error: BaseException) -> Optional[str]:
    """One line for what the user can mend, or None for any other error."""
    text = str(error)
    if isinstance(error, UserError):
        return text
    too_long = _TOO_LONG.search(text)
    if too_long:
        # NumPy 2 prints np.int32(999), and a pair has parentheses of its own
        number, size, limit = (_NUMPY.sub(r"\1", group).strip("()") for group in too_long.groups())
        return (
            f"sentence {number} has more tokens ({size}) than the model has "
            f"positions ({limit}): train with a higher --max-source-positions and "
            "--max-target-positions, or leave such sentences out with "
            "--skip-invalid-size-inputs-valid-test"
        )
    if isinstance(error, RuntimeError) and "gloo/transport" in text:
        gone = _GONE.search(text)
        return gone and (
            f"another process of this run has ended ({gone[0]}): its own output says why. Start "
            "all of them again with the same command"
        )
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return text  # fairseq's own, such as "Dataset not found: train (data-bin)"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return None


def _install() -> None:
    """Shorten recognised errors if this process is one of the programs of fairseq."""
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


_install()
