"""Atomic files and folders, locks, and the record of what a result was made from."""

import contextlib
import errno
import glob
import json
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from resmlp_mt_runtime.errors import UserError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# seconds to wait for a lock: the workers of a killed process hold it until they end
GRACE = 3


def _own_name(path: str) -> str:
    """A temporary name for *path*, this process's own. Removes those of dead processes here."""
    host = re.sub(r"[^\w-]", "_", socket.gethostname())
    for stale in glob.glob(f"{glob.escape(path)}.{host}.*.tmp"):
        with contextlib.suppress(OSError, ValueError):  # another user's, or another name
            if not _is_anothers(int(stale.split(".")[-2])):
                is_folder = os.path.isdir(stale) and not os.path.islink(stale)
                shutil.rmtree(stale) if is_folder else os.remove(stale)
    return f"{path}.{host}.{os.getpid()}.tmp"


def _is_anothers(process: int) -> bool:
    """Whether a living process other than this one has the number."""
    if os.name == "nt":  # where the call would end it
        return True
    try:
        os.kill(process, 0)  # signal 0: is there such a process?
        return process != os.getpid()
    except (ProcessLookupError, OverflowError):
        return False


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Atomic write: yields a temporary file, then fsync and rename; removed after an error."""
    temporary = _own_name(str(path))
    try:
        # a link that another user has put there is not followed
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        yield Path(temporary)
        _sync(temporary)
        os.replace(temporary, path)
        _sync(os.path.dirname(path) or ".")
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        # report the path that the user gave; an error of a full disk has none
        if isinstance(error, OSError) and error.filename in (None, temporary):
            error.filename = str(path)
        raise


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Atomic folder: yields a temporary one, then renames it; removes it after an error."""
    temporary = Path(_own_name(str(path)))
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for inner, _, names in os.walk(temporary):
            for name in (*names, "."):
                _sync(os.path.join(inner, name))
        os.rename(temporary, path)
        _sync(path.parent)
    except OSError as error:
        # report the path that the user gave; an error of a full disk has none
        if error.filename is None or str(error.filename).startswith(str(temporary)):
            error.filename = str(path)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _sync(path: str | Path) -> None:
    """Write a file or folder to the disk. Not every file system does so for folders; Windows does
    so only for files that are open for writing."""
    try:
        opened = os.open(path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError:
        if fcntl and not os.path.isdir(path):
            raise


def open_file(path: Path) -> BufferedReader:
    """The bytes of a file. OSError, too, for a pipe or a device, which may never end."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "Not a file", str(path))
    return open(path, "rb")


def write_json(path: Path, value) -> None:
    """Write a JSON file atomically."""
    with whole_file(path) as temporary:
        text = json.dumps(value, indent=2, ensure_ascii=False)
        temporary.write_text(text + "\n", "utf-8", "surrogateescape")


def read_json(path: Path):
    """The value in a JSON file."""
    try:
        return json.loads(Path(path).read_text("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not a JSON file ({error}): make it again") from None


@contextlib.contextmanager
def as_written(path: Path) -> Iterator[None]:
    """In the block, a missing or wrong value of our JSON file *path* is a UserError."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        wrong = f"{path} is damaged or altered ({type(error).__name__}: {error})"
        raise UserError(f"{wrong}: make it again") from error


def read_own(path: Path, *names: str) -> dict:
    """A JSON file of this package, which has at least one of *names*; ``{}`` if there is none.
    Another program's file is refused, so that it is not overwritten."""
    if not Path(path).exists():
        return {}
    values = read_json(path)
    if not (isinstance(values, dict) and values.keys() & set(names)):
        raise UserError(f"{path} belongs to another program: choose another folder or move it away")
    return values


def _record(path: Path) -> Path:
    return Path(path).with_name(f".{Path(path).name}.source")


def source_of(path: Path) -> dict | None:
    """What a file or folder was made from, as recorded beside it; None if that is not known."""
    record = _record(path)
    if not Path(path).exists() or not record.exists():
        return None
    with as_written(record):
        return dict(read_own(record, "made_from")["made_from"])


def record_source(path: Path, source: dict) -> None:
    """Record what *path* is made from: digests, and the options that it depends on."""
    write_json(_record(path), {"made_from": source})


def check_output(path: Path, *inputs: Path) -> None:
    """Refuse an output that cannot be written or is an input; ``-`` is a standard stream."""
    path = Path(path)
    to_file = str(path) != "-"
    output, name = (path, path) if to_file else (1, "standard output")
    for each in inputs:
        with contextlib.suppress(OSError):  # one is not there
            written, read = os.stat(output), os.stat(0 if str(each) == "-" else each)
            if stat.S_ISREG(written.st_mode) and os.path.samestat(written, read):
                raise UserError(f"{name} is an input: choose another file to write")
    if not to_file:
        return
    # /dev/stdout may point to a regular file, and would itself be replaced
    absolute = path.absolute()
    system = absolute.parent == Path("/dev") or Path("/proc") in absolute.parents
    if path.exists() and (system or not path.is_file()):
        wrong = "a folder" if path.is_dir() else "not a regular file"
        raise UserError(f"{path} is {wrong}: name a file to write")
    if not path.parent.is_dir():
        raise UserError(f"{path}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):  # for the file beside it, even if there is an output
        raise UserError(f"{path}: cannot write in the folder {path.parent}: choose another")


def lock(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Create a folder; in a block with this, it is locked against other processes."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    return _locked(Path(folder) / ".lock", f"another process is working in {folder}")


@contextlib.contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Create a file and lock it. After an error, a new file is removed if it is still empty."""
    new = not Path(path).exists()
    with _locked(path, f"another process is writing {path}"):
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError):  # it is gone; Windows removes no file that is open
                if new and not os.stat(path).st_size:
                    os.remove(os.path.realpath(path))  # not a link to it
            raise


@contextlib.contextmanager
def _locked(path: Path, busy: str) -> Iterator[None]:
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    end = time.monotonic() + GRACE
    try:
        while fcntl:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise UserError(f"{busy}: wait until it ends, or write elsewhere") from None
                time.sleep(0.05)
            except OSError:  # the file system has no locks
                break
        yield
    finally:
        os.close(file)
