"""What runs of whole programs on hostile lines have in common."""

import re
import shutil
from pathlib import Path
from typing import Callable

from cli import call
from small_world import Said, World

from resmlp_mt.compat.program_errors import explain
from resmlp_mt.text.subwords import Subwords


class Runs:
    """
    Args:
        world: a small model and its data.
        folder: for files.
    """

    def __init__(self, world: World, folder: Path):
        self.world, self.folder, self.encode = world, folder, Subwords(world.spm).encode

    def _empty(self) -> Path:
        folder = self.folder / "programs"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def _fairseq(self, name: str, *arguments, stdin: bytes = b"") -> str:
        try:
            return call(name, *arguments, stdin=stdin).out
        except Exception as error:
            message = explain(error)
            if message is None:
                raise
            raise Refused(" ".join(message.split())) from None


class Refused(AssertionError):
    """Its text is what a user would see."""


def succeeded(said: Said, notes: str = "^$") -> None:
    """A script ended well, with nothing on standard error but *notes*."""
    if said.status:
        raise Refused("\n".join(said.err))
    unexpected = [line for line in said.err if not re.search(notes, line)]
    assert not unexpected, unexpected


def largest_vocabulary(train: Callable[[object], Said]) -> None:
    """Train with more pieces than a small text allows, then with as many as it does."""
    said = train(5000)
    most = re.search(r"at most (\d+)", "".join(said.err))
    succeeded(
        train(most[1]) if most else said, notes="subwords are learnt without|newstest2014 in full"
    )


def text_of(line: bytes) -> str:
    """A file's line without what belongs to its end."""
    return line.rstrip(b"\r").decode("utf-8")
