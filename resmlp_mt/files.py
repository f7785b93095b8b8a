"""Files written whole or not at all, and folders that one process at a time works in."""

import contextlib
import glob
import json
import os
import re
import socket
from pathlib import Path
from typing import Iterator

from filelock import FileLock, Timeout

from resmlp_mt.errors import UserError

# seconds to wait for a lock: the workers of a process that was killed keep it until they end
GRACE = 3


def _own_name(path: str) -> str:
    """A temporary name of this process for *path*; the files of dead processes are removed.

    Files of other computers stay, because their processes may be alive.
    """
    host = re.sub(r"[^\w-]", "_", socket.gethostname())
    for left in glob.glob(f"{glob.escape(path)}.{host}.*.tmp"):
        process = left.split(".")[-2]
        if process.isdecimal():
            try:
                os.kill(int(process), 0)  # no signal: looks whether there is such a process
            except (ProcessLookupError, OverflowError):
                with contextlib.suppress(OSError):
                    os.remove(left)
            except OSError:
                pass  # it is another user's
    return f"{path}.{host}.{os.getpid()}.tmp"


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A name to write a file under. It is renamed to *path* when the block ends well.

    The file is on the disk before it gets its name, and nothing of it is left after an error.
    """
    temporary = _own_name(str(path))
    try:
        yield Path(temporary)
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        # the name that the user gave; a full disk names none
        if isinstance(error, OSError) and error.filename in (None, temporary):
            error.filename = str(path)
        raise


def write_json(path: Path, value) -> None:
    """Write a JSON file whole or not at all."""
    with whole_file(path) as temporary:
        text = json.dumps(value, indent=2, ensure_ascii=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def read_json(path: Path):
    """The value in a JSON file."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: give a file that is there") from None
    except ValueError as error:
        raise UserError(f"{path}: not a JSON file ({error}): make it again") from None


def read_own(path: Path, *names: str) -> dict:
    """A JSON file of this package, which has at least one of *names*; nothing if it is not there.

    Another program's file of that name is refused: it must not be overwritten.
    """
    if not Path(path).exists():
        return {}
    found = read_json(path)
    if not (isinstance(found, dict) and found.keys() & set(names)):
        raise UserError(
            f"{path} is a file of another program: choose another folder, or move it away"
        )
    return found


def make_folder(path: Path) -> None:
    """Make a folder and those above it, unless they are there."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: choose a folder that can be written") from None


def check_output(path: Path, *inputs: Path) -> None:
    """Refuse, before any work is done, what cannot be written or is one of the *inputs*."""
    path = Path(path)
    if path.exists() and any(Path(each).exists() and path.samefile(each) for each in inputs):
        raise UserError(f"{path} is the input: choose another file to write")
    # /dev/stdout may lead to a regular file, and would be replaced itself
    absolute = path.absolute()
    system = absolute.parent == Path("/dev") or Path("/proc") in absolute.parents
    if path.exists() and (system or not path.is_file()):
        wrong = "is a folder" if path.is_dir() else "is not a regular file"
    elif not path.parent.is_dir():
        wrong = f"has no folder {path.parent} to be in"
    else:
        return
    raise UserError(f"{path} {wrong}: name a file in a folder that is there")


def check_colon(folder: Path) -> None:
    """Refuse a folder of data that fairseq would take for several."""
    if os.pathsep in str(folder):
        end = f"fairseq takes a {os.pathsep} for the end of a folder"
        raise UserError(f"{folder}: {end}: choose another name")


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Keep other processes out of a folder, which is made if it is not there.

    The same process may hold it several times. It is released when the process ends or is killed.
    """
    make_folder(folder)
    guard = FileLock(Path(folder).resolve() / ".lock", is_singleton=True)
    try:
        guard.acquire(timeout=GRACE)
    except Timeout:
        raise UserError(
            f"another process is working in {folder}: wait for its end, or choose another folder"
        ) from None
    except OSError as error:
        raise UserError(
            f"{folder}: {error.strerror}: choose a folder that can be written"
        ) from None
    try:
        yield
    finally:
        guard.release()
