"""A teacher's hypotheses for a whole text, in a folder: chunk by chunk, by one process or several.

A chunk's file takes its name when it is complete, so that a run that was stopped goes on behind the
last of them.
"""

import gzip
import json
import os
import time
import zlib
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Iterator, List, Tuple

import torch
from tqdm import tqdm

from resmlp_mt.errors import UserError
from resmlp_mt.files import check_options, read_json, write_json
from resmlp_mt.translate.search import Search
from resmlp_mt.translate.shards import open_shards
from resmlp_mt.translate.teacher import Hypothesis, Teacher

CHUNK_LINES = 1024
COST = ("wall_seconds", "cpu_seconds")
DIED = (
    "a process ended with status {status} (-9: killed, perhaps for want of memory; 1: see above): "
    "the same command goes on from here, with fewer --shards if need be"
)
Chunk = Tuple[Path, List[str]]  # file to write, lines to translate


def digest(lines: List[str]) -> str:
    """SHA-256 of a text."""
    return sha256("\n".join(lines).encode()).hexdigest()


def read_manifest(path: Path) -> dict:
    """
    Raises:
        UserError: if the file is not one that :mod:`resmlp_mt.translate.distillation` wrote.
    """
    made_with = read_json(path)
    if not isinstance(made_with, dict) or "options" not in made_with:
        raise UserError(f"{path} is there already, and not of this script's making: move it away")
    return made_with


def check_same(manifest: Path, made_with: dict, options: dict) -> None:
    """
    Raises:
        UserError: naming the first option in which the two differ.
    """
    check_options(f"{manifest}: results", made_with, options, "choose another place or delete them")


class Beams:
    """
    Args:
        folder: for the files; made if need be. Two processes must not fill it at a time.
        search: teacher and options.
        identity: what ``search.identity()`` gave.
        lines: the text to translate.

    Raises:
        UserError: if the folder cannot be written, or holds another text, teacher or search.
    """

    def __init__(self, folder: Path, search: Search, identity: dict, lines: List[str]):
        self.folder, self.search, self.lines = Path(folder), search, lines
        options = {**identity, "source": digest(lines), "chunk_lines": CHUNK_LINES}
        manifest = self.folder / "manifest.json"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not any(self.folder.glob("*.jsonl.gz")):  # before that, options may be changed
                write_json(manifest, {"options": options})
        except OSError as error:
            raise UserError(
                f"{self.folder}: {error.strerror}: choose a folder that can be written"
            ) from None
        check_same(manifest, read_manifest(manifest)["options"], options)

    def _chunks(self) -> Iterator[Chunk]:
        for number, start in enumerate(range(0, len(self.lines), CHUNK_LINES)):
            path = self.folder / f"{number:06}.jsonl.gz"
            yield path, self.lines[start : start + CHUNK_LINES]

    def complete(self, processes: int) -> None:
        """Translate what is not there yet.

        Args:
            processes: how many; each has a GPU, where there are any, or its share of the threads.

        Raises:
            UserError: what :class:`~resmlp_mt.translate.teacher.Teacher` raises; a process that is
                ended from outside.
        """
        todo = [chunk for chunk in self._chunks() if not chunk[0].exists()]
        left = sum(len(lines) for _, lines in todo)
        if not todo:
            return
        load, count = partial(ChunkMaker, self.search), min(processes, len(todo))
        with (
            tqdm(
                total=len(self.lines),
                initial=len(self.lines) - left,
                unit=" sentences",
                mininterval=1,
                dynamic_ncols=True,
            ) as bar,
            open_shards(load, count, self.search.cpu, DIED) as shards,
        ):
            for _, done in shards.answers(todo):
                bar.update(done)

    def __iter__(self) -> Iterator[List[Hypothesis]]:
        """Each line's hypotheses, in the order of the text.

        Raises:
            UserError: if a file is damaged.
        """
        for path, lines in self._chunks():
            yield from _read_chunk(path, len(lines))

    def cost(self) -> dict:
        """Seconds of all chunks together, on the clock and of CPU, without the models' loading."""
        costs = []
        for path, _ in self._chunks():
            with _reading(path) as records:
                costs.append(next(records))
        return {name: round(sum(cost[name] for cost in costs), 3) for name in COST}


class ChunkMaker:
    """A teacher that writes files: a model of :mod:`resmlp_mt.translate.shards`."""

    about = None

    def __init__(self, search: Search, device: torch.device):
        self._teacher = Teacher(search, device)

    def work(self, chunk: Chunk) -> Iterator[int]:
        """Translate the lines and write their hypotheses, or nothing; yields, each time that more
        lines are done, how many."""
        path, lines = chunk
        before = time.perf_counter(), time.process_time()
        beams = {}
        for found in self._teacher.translate(lines):
            beams.update(found)
            yield len(found)
        after = time.perf_counter(), time.process_time()
        head = {name: round(b - a, 3) for name, a, b in zip(COST, before, after)}
        unfinished = Path(f"{path}.partial")
        with gzip.open(unfinished, "wt", encoding="utf-8") as file:
            for record in (head, *(beams[number] for number in range(len(lines)))):
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
        os.replace(unfinished, path)


@contextmanager
def _reading(path: Path) -> Iterator[Iterator]:
    """A chunk's records: its cost, then a line's hypotheses each.

    Raises:
        UserError: if what is read within this context is not what :class:`ChunkMaker` wrote.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            yield map(json.loads, file)
    except (OSError, EOFError, zlib.error, ValueError, TypeError):
        raise UserError(
            f"{path} is damaged: delete it, and the same command makes it again"
        ) from None


def _read_chunk(path: Path, count: int) -> List[List[Hypothesis]]:
    with _reading(path) as (_, *records):
        beams = [[Hypothesis(*hypothesis) for hypothesis in record] for record in records]
        if len(beams) != count:
            raise ValueError
    return beams
