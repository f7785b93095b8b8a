"""A folder of results made step by step: announced, reused when finished, never half there."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Callable

from resmlp_mt.errors import UserError

RESULTS = "results"  # what manifest.json calls that which is not an option


def make_folder(path: Path) -> None:
    """
    Raises:
        UserError: if it is not there and cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: choose a folder that can be written") from None


def write_json(path: Path, value) -> None:
    """Write a JSON file whole or not at all."""
    partial = Path(f"{path}.partial")
    partial.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(partial, path)


def read_json(path: Path):
    """
    Raises:
        UserError: if the file is not there or not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}: give a file that is there") from None
    except ValueError as error:
        raise UserError(f"{path}: not a JSON file ({error}): make it again") from None


def check_options(results: str, made_with: dict, options: dict, instead: str) -> None:
    """
    Args:
        results: what the message calls the results.
        made_with: the options that they were made with, read from JSON.
        options: those that are asked for, as JSON values.
        instead: what to do, for the message.

    Raises:
        UserError: naming the first option in which the two differ.
    """
    options = json.loads(json.dumps(options))
    for name in sorted(set(made_with) | set(options)):
        old, new = made_with.get(name), options.get(name)
        if old != new:
            raise UserError(
                f"{results} made with {name} = {json.dumps(old)}, not {json.dumps(new)}: {instead}"
            )


class Workdir:
    """A results folder that belongs to one set of options.

    Args:
        root: the folder; made if need be.
        options: everything that the results depend on, as JSON values.
        steps: how many steps will be run, for the announcements.

    Raises:
        UserError: if the folder cannot be written, or holds results of other options.
    """

    def __init__(self, root: Path, options: dict, steps: int):
        self.root, self.total, self.number = Path(root), steps, 0
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            manifest = self.root / "manifest.json"
            if not self._finished_any():
                write_json(manifest, options)
        except OSError as error:
            raise UserError(
                f"{self.root}: {error.strerror}: choose a folder that can be written"
            ) from None
        made_with = read_json(manifest)
        made_with.pop(RESULTS, None)
        check_options(
            f"{self.root} holds results",
            made_with,
            options,
            "choose another folder or delete this one",
        )

    def _finished_any(self) -> bool:
        """Whether a step's results are here, or a checkpoint of one that goes on: before that, the
        options may still be changed."""
        folders = [path for path in self.root.iterdir() if path.is_dir()]
        return any(path.suffix != ".partial" or any(path.glob("*.pt")) for path in folders)

    def record(self, results: dict) -> None:
        """Write *results* into ``manifest.json``, beside the options."""
        manifest = self.root / "manifest.json"
        write_json(manifest, {**read_json(manifest), RESULTS: results})

    def step(
        self, name: str, title: str, make: Callable[[Path], None], resumable: bool = False
    ) -> Path:
        """Make ``root/name`` by calling *make* on an empty folder, unless it is there already.

        The folder takes its name when *make* has returned. A *resumable* step finds what its
        interrupted self had written; any other starts afresh.
        """
        self.number += 1
        head = f"[{self.number}/{self.total}] {title}"
        final, partial = self.root / name, self.root / f"{name}.partial"
        if final.exists():
            print(f"{head}: done before, reused", flush=True)
            return final
        if partial.exists() and not resumable:
            shutil.rmtree(partial)
        partial.mkdir(exist_ok=True)
        print(f"{head} ...", flush=True)
        start = time.monotonic()
        make(partial)
        os.replace(partial, final)
        print(f"{head}: done in {time.monotonic() - start:.0f} s", flush=True)
        return final
