"""``resmlp-mt`` and ``resmlp-translate``, called in this process, and any command in a shell."""

import contextlib
import io
import os
import re
import resource
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from unittest import mock

from resmlp_mt.cli.main import main as ours
from resmlp_mt_runtime.command import main as runtimes

Said = namedtuple("Said", "status out err")  # how a command ended, and what it printed


def standard_input(content: bytes):
    """In a block with this, *content* is standard input."""
    stream = io.TextIOWrapper(io.BufferedReader(io.BytesIO(content)), "utf-8")
    return mock.patch.object(sys, "stdin", stream)


def resmlp(*words, stdin: bytes = b"", program="resmlp-mt") -> Said:
    """Call ``resmlp-mt WORDS`` or ``resmlp-translate``, as a shell would; progress is left out."""
    main = {"resmlp-mt": ours, "resmlp-translate": runtimes}[program]
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n"), io.StringIO()
    with (
        mock.patch.object(sys, "argv", [program, *map(str, words)]),
        standard_input(stdin),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = main()
        out.flush()
    # a bar goes back to the start of its line, a step has its number in front and ends with a time
    lines = [line for line in err.getvalue().split("\n") if line.strip() and "\r" not in line]
    lines = [f"{line}\n" for line in lines if not re.match(r" *(\[\d/\d\]|done in)", line)]
    return Said(status, out.buffer.getvalue().decode(), "".join(lines))


def ran(*words) -> Said:
    """Assert that ``resmlp-mt WORDS`` ends well; gives what it printed."""
    said = resmlp(*words)
    assert said.status == 0, said.err
    return said


def refused(said: str, *words, stdin: bytes = b"") -> None:
    """Assert that ``resmlp-mt WORDS`` ends with a one-line error that has *said* in it."""
    status, out, err = resmlp(*words, stdin=stdin)
    assert status == 1 and not out, (words, out)
    assert err.count("\n") == 1 and err.startswith(f"resmlp-mt {words[0]}: error: "), err
    assert said in err, err


@contextlib.contextmanager
def files_up_to(size: int):
    """No file may grow past *size* bytes in the block, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def shell(command: str, cwd: Path, first: Path | None = None, **variables: str):
    """Run a line through bash; the folder *first* and this Python's come first in its PATH."""
    folders = [first or "", Path(sys.executable).parent, os.environ["PATH"]]
    path = os.pathsep.join(filter(None, map(str, folders)))
    how = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 900}
    how["env"] = {**os.environ, "PATH": path, **variables, "OMP_NUM_THREADS": "1"}
    return subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=cwd, **how)
