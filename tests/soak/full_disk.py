"""A file system that is small enough to fill up, and how a training should end on it."""

import subprocess
from pathlib import Path
from typing import List

from resmlp_mt.errors import UserError


class SmallDisk:
    """A tmpfs of so many bytes at *folder*, which is made; unmounted at the end of a ``with``.

    Raises:
        UserError: if this process may not mount anything.
    """

    def __init__(self, folder: Path, size: int):
        self.folder, self._size = folder, size

    def __enter__(self):
        self.folder.mkdir()
        self._mount(f"size={self._size}", "tmpfs", str(self.folder))
        return self

    def __exit__(self, *error):
        subprocess.run(["umount", str(self.folder)], check=True)

    def make_room(self, size: int) -> None:
        """Let it have so many bytes."""
        self._mount(f"remount,size={size}", str(self.folder))

    def _mount(self, options: str, *rest: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, *rest]
        said = subprocess.run(command, capture_output=True, text=True)
        if said.returncode:
            raise UserError(
                f"no small disk to fill ({said.stderr.strip()}): run this as root, or in "
                "unshare --map-root-user --mount"
            )


def one_line(status: int, output: str, folder: Path, reason: str) -> List[str]:
    """What is wrong with how ``fairseq-train`` ended when a checkpoint could not be written.

    Args:
        status: its exit status.
        output: all that it printed.
        folder: of the checkpoints.
        reason: the operating system's words.
    """
    lost = []
    if status <= 0:
        lost.append(f"exit status {status}")
    if "Traceback" in output:
        lost.append("a traceback")
    last = output.rstrip().rpartition("\n")[2]
    if not (last.startswith(f"fairseq-train: error: {folder}") and reason in last):
        lost.append(f"no error in one line but {last!r}")
    if list(folder.glob("*.tmp")):
        lost.append("half a file left behind")
    return lost
