"""A folder of results, made in steps: each whole or not at all, by one process at a time."""

import contextlib
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Callable

from resmlp_mt.errors import UserError
from resmlp_mt.files import lock, read_own, write_json


class Steps:
    """Holds the folder *root* and refuses one that was made with other *options*, all that the
    results depend on. There are *total* steps to announce."""

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
                raise UserError(
                    f"{self.root} holds results made with {name} = {json.dumps(old)}, not "
                    f"{json.dumps(new)}: choose another folder or delete this one"
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
