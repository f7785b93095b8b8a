"""The command ``resmlp-mt``, called in this process: its refusals."""

from typing import NamedTuple

from small_world import run_command


class Said(NamedTuple):
    """How a command ended: its exit status, and what it printed to either stream."""

    status: int
    out: str
    err: str


def resmlp(*words, stdin: bytes = b"") -> Said:
    """Call ``resmlp-mt WORDS``."""
    said = run_command(*words, stdin=stdin)
    return Said(said.status, said.out, "".join(f"{line}\n" for line in said.err))


def refused(said: str, *words, stdin: bytes = b"") -> None:
    """Assert that ``resmlp-mt WORDS`` ends with a one-line error that has *said* in it."""
    status, out, err = resmlp(*words, stdin=stdin)
    assert status == 1 and not out, (words, out)
    assert err.count("\n") == 1 and err.startswith(f"resmlp-mt {words[0]}: error: "), err
    assert said in err, err
