"""A folder that is made in steps: resumable, by one process at a time, bound to its options."""

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from resmlp_mt_runtime import files
from resmlp_mt_runtime.errors import UserError, say


@dataclass
class Steps:
    """The folder *root*, made in *total* steps, with its *options* in ``manifest.json``. Once there
    is a result, changed options are refused, except those in *free* (results that depend on them
    record their source); the one that *grows* names may be raised."""

    root: Path
    options: dict
    total: int
    indent: str = ""
    free: tuple[str, ...] = ()
    grows: str = ""

    def __post_init__(self):
        self.number, self.options = 0, json.loads(json.dumps(self.options))

    @contextlib.contextmanager
    def locked(self) -> Iterator["Steps"]:
        """Lock the folder in the block. Raises a UserError if it has other options."""
        manifest = self.root / "manifest.json"
        with files.lock(self.root):
            made_with = files.read_own(manifest, *self.options)
            if self._begun():
                if not manifest.exists():
                    raise UserError(f"{self.root} holds other folders: choose an empty folder")
                with files.as_written(manifest):
                    for name in self.options | made_with:  # in the order of the options
                        self._compare(name, made_with.get(name), self.options.get(name))
            if made_with != self.options:
                files.write_json(manifest, self.options)
            yield self

    def _compare(self, name: str, old, new) -> None:
        if old == new or name in self.free or (name == self.grows and old < new):
            return
        if name not in self.options and not old:  # an option that is gone, and was off
            return
        what = f"{name} = {json.dumps(old)}, not {json.dumps(new)}"
        what = f"another {name}" if "text of " in name or isinstance(old, dict) else what
        remedy = "raise it, or " if name == self.grows else ""
        raise UserError(f"{self.root} holds results made with {what}: {remedy}choose another --out")

    def _begun(self) -> bool:
        """Whether there is a result or a checkpoint: before that, the options may be changed."""
        for path in self.root.iterdir():
            # a folder with a manifest guards itself
            if not path.is_dir() or path.suffix == ".tmp" or (path / "manifest.json").exists():
                continue
            is_training = (path / "train.json").exists()
            if any(path.glob("checkpoint*.pt") if is_training else path.iterdir()):
                return True
        return False

    def announce(self, title: str) -> None:
        """Print that a step begins."""
        self.number += 1
        say(f"{self.indent}[{self.number}/{self.total}] {title}")

    def step(self, name: str, title: str, make: Callable, source: dict | None = None) -> None:
        """Let *make* fill ``root/name``, unless it is there and made from the *source*, if any."""
        final = self.root / name
        if final.exists() and (source is None or files.source_of(final) == source):
            self.announce(f"{title}: already done")
            return
        self.announce(title)
        start = time.monotonic()
        with files.whole_folder(final) as folder:
            make(folder)
            shutil.rmtree(final, ignore_errors=True)
        if source is not None:
            files.record_source(final, source)
        say(f"{self.indent}    done in {time.monotonic() - start:.0f} s")
