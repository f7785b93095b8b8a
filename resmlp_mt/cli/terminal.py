"""Runs a subcommand, in which fairseq says nothing that no user can use."""

import logging
import os
import sys
import warnings
from collections.abc import Callable

from resmlp_mt.fairseq_fixes.messages import in_one_line
from resmlp_mt_runtime import terminal

# what to add to "stopped", by subcommand; "" is an example's program
RESUMED = dict.fromkeys(("prepare", "train", "run", ""), ": the same command resumes it")
RESUMED["translate"] = terminal.RESUMED


def run_main(main: Callable[[], None], name: str = "") -> int:
    """Call *main*, the work of the subcommand *name*; returns the exit status, as of the
    runtime's."""
    program = f"resmlp-mt {name}" if name else os.path.basename(sys.argv[0])
    disabled = logging.root.manager.disable
    logging.disable(logging.INFO)  # fairseq's, which go to the terminal
    # about fairseq's code, which no user can correct
    warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", FutureWarning)
    warnings.filterwarnings("ignore", ".*invalid escape", SyntaxWarning)
    try:
        return terminal.run_main(main, program, RESUMED.get(name, ""), in_one_line)
    finally:
        logging.disable(disabled)  # a subcommand may call another
