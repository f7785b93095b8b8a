"""Where our parts meet fairseq: what is registered with it, by us or by the user's --user-dir, and
what is replaced in it."""

import os
import traceback
import warnings
from argparse import Namespace
from pathlib import Path

from resmlp_mt.patching import logging_as_before, without_examples
from resmlp_mt_runtime.errors import UserError


def register() -> None:
    """Register our model, search and optimizer with fairseq in this process, and repair it."""
    with logging_as_before(), without_examples(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about code of fairseq, which no user can correct
        from resmlp_mt import autocast, muon  # noqa: F401
        from resmlp_mt.fairseq_fixes import results, safety, trainings  # noqa: F401
        from resmlp_mt.model import model  # noqa: F401
        from resmlp_mt.search import beam_search  # noqa: F401
    # fairseq pins memory without a GPU too
    warnings.filterwarnings("ignore", "'pin_memory' argument is set as true")


def register_user_dir(folder: str | Path) -> None:
    """Import a user's *folder*, as fairseq does with ``--user-dir``, beside ours: its classes are
    registered. Raises a UserError if it cannot be imported."""
    register()
    from fairseq.utils import import_user_module

    if not os.path.isfile(os.path.join(folder, "__init__.py")):
        raise UserError(f"--user-dir {folder}: there is no such folder with an __init__.py in it")
    if (name := os.path.basename(os.path.abspath(folder))) == "examples" or "." in name:
        raise UserError(f"--user-dir {folder}: nothing called {name} can be imported: rename it")
    files = Path(folder).rglob("*.py")
    if not any(b"resmlp_mt" in path.read_bytes() for path in files if path.is_file()):
        # fairseq-train imports no other folder, and would not know ours
        raise UserError(f"--user-dir {folder}: add `import resmlp_mt` to its __init__.py")
    try:
        import_user_module(Namespace(user_dir=str(folder)))
    except Exception as error:
        said = f"{place_in(folder, error)}{type(error).__name__}: {error}"
        raise UserError(f"--user-dir {folder}: {said}") from error


def place_in(folder: str | Path, error: Exception) -> str:
    """``FILE, line N: `` of the code in a user's *folder* that raised an *error*; "" if none did,
    and for a SyntaxError, which says itself where it is."""
    frames, folder = traceback.extract_tb(error.__traceback__), os.path.abspath(folder)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(folder)]
    return f"{own[-1].filename}, line {own[-1].lineno}: " if own else ""
