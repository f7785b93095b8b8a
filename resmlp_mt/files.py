"""Files written whole or not at all; folders that are made in steps, by one process at a time."""

import contextlib
import fcntl
import glob
import json
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from resmlp_mt.errors import UserError

# seconds to wait for a lock: the workers of a process that was killed keep it until they end
GRACE = 3


def _own_name(path: str) -> str:
    """A temporary name of this process for *path*. Files of dead processes of this computer are
    removed."""
    host = re.sub(r"[^\w-]", "_", socket.gethostname())
    for left in glob.glob(f"{glob.escape(path)}.{host}.*.tmp"):
        process = left.split(".")[-2]
        if process.isdecimal():
            try:
                os.kill(int(process), 0)  # no signal: looks whether there is such a process
            except (ProcessLookupError, OverflowError):
                with contextlib.suppress(OSError):
                    shutil.rmtree(left) if os.path.isdir(left) else os.remove(left)
            except OSError:
                pass  # it is another user's
    return f"{path}.{host}.{os.getpid()}.tmp"


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A name to write a file under. When the block ends well, the file is flushed to the disk and
    renamed to *path*; after an error nothing is left."""
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


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder, which becomes *path* when the block ends well; after an error nothing is
    left."""
    temporary = Path(_own_name(str(path)))
    try:
        temporary.mkdir()
        yield temporary
        os.rename(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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
        raise UserError(f"{path}: {error.strerror}: check the path") from None
    except ValueError as error:
        raise UserError(f"{path}: not a JSON file ({error}): make it again") from None


def read_own(path: Path, *names: str) -> dict:
    """A JSON file of this package, which has at least one of *names*, or nothing. Another program's
    file is refused, so that it is not overwritten."""
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
    raise UserError(f"{path} {wrong}: choose a file in an existing folder")


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Make a folder and keep other processes out."""
    make_folder(folder)
    with _locked(Path(folder) / ".lock", f"another process is working in {folder}"):
        yield


@contextlib.contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Keep other processes from writing a file too. It is made, and removed after an error if
    nothing was written."""
    new = not Path(path).exists()
    with _locked(path, f"another process is writing {path}"):
        try:
            yield
        except BaseException:
            if new and not os.stat(path).st_size:
                os.remove(path)
            raise


@contextlib.contextmanager
def _locked(path: Path, busy: str) -> Iterator[None]:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: choose one that can be written") from None
    end = time.monotonic() + GRACE
    try:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise UserError(f"{busy}: wait for its end, or choose another") from None
                time.sleep(0.05)
            except OSError:  # some file systems have no locks
                break
        yield
    finally:
        os.close(file)


class Steps:
    """Locks the folder *root*, and refuses one that was made with other *options*: all that the
    results depend on. There are *total* steps."""

    def __init__(self, root: Path, options: dict, total: int, indent: str = ""):
        self.root, self.options = Path(root), json.loads(json.dumps(options))
        self.total, self.number, self.indent = total, 0, indent
        self._held = contextlib.ExitStack()

    def __enter__(self) -> "Steps":
        with self._held as held:
            held.enter_context(lock(self.root))
            self._check()
            self._held = held.pop_all()
        return self

    def __exit__(self, *_) -> None:
        self._held.close()

    def _check(self) -> None:
        manifest = self.root / "manifest.json"
        made_with = read_own(manifest, *self.options)
        if not self._begun():
            write_json(manifest, self.options)
            return
        if not manifest.exists():
            raise UserError(f"{self.root} holds folders of something else: choose an empty folder")
        for name in sorted(set(made_with) | set(self.options)):
            old, new = made_with.get(name), self.options.get(name)
            if old != new:
                what = f"{name} = {json.dumps(old)}, not {json.dumps(new)}"
                what = f"another {name}" if "text of " in name else what
                raise UserError(
                    f"{self.root} holds results made with {what}: choose another or delete it"
                )

    def _begun(self) -> bool:
        """Whether there is a result or a checkpoint: before that, the options may be changed."""
        return any(
            any(path.glob("*.pt")) if (path / "train.json").exists() else any(path.iterdir())
            for path in self.root.iterdir()
            # a folder with a manifest guards itself
            if path.is_dir() and path.suffix != ".partial" and not (path / "manifest.json").exists()
        )

    def announce(self, title: str) -> None:
        """Say that a step begins."""
        self.number += 1
        print(f"{self.indent}[{self.number}/{self.total}] {title}", file=sys.stderr, flush=True)

    def step(self, name: str, title: str, make: Callable[[Path], None]) -> None:
        """Make ``root/name`` by calling *make* on an empty folder, unless it is there already."""
        final, partial = self.root / name, self.root / f"{name}.partial"
        if final.exists():
            self.announce(f"{title}: done before")
            return
        self.announce(title)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        start = time.monotonic()
        try:
            make(partial)
        except BaseException as error:
            if isinstance(error, OSError) and error.filename is None:
                error.filename = str(partial)
            shutil.rmtree(partial, ignore_errors=True)
            raise
        os.replace(partial, final)
        print(f"{self.indent}    done in {time.monotonic() - start:.0f} s", file=sys.stderr)
