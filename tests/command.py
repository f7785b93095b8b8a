"""The command ``resmlp-mt``, called in this process."""

import contextlib
import io
from typing import NamedTuple
from unittest import mock

from resmlp_mt.cli.main import main


class Said(NamedTuple):
    """How a command ended: its exit status, and what it printed to either stream."""

    status: int
    out: str
    err: str


def resmlp(*words, stdin: bytes = b"") -> Said:
    """Call ``resmlp-mt WORDS``.

    Args:
        words: the command line.
        stdin: what it reads there.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8")),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        status = main(list(map(str, words)))
    return Said(status, out.getvalue(), err.getvalue())


def refused(said: str, *words, stdin: bytes = b"") -> None:
    """Assert that ``resmlp-mt WORDS`` ends with a one-line error that has *said* in it."""
    status, out, err = resmlp(*words, stdin=stdin)
    assert status == 1 and not out, (words, out)
    assert err.count("\n") == 1 and err.startswith(f"resmlp-mt {words[0]}: error: "), err
    assert said in err, err
