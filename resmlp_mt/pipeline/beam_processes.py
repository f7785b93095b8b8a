"""Chunks of a text through a teacher, in this process or in several of their own."""

import gzip
import json
import os
import signal
import time
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Callable, Iterator, List, Tuple

import torch

from resmlp_mt.errors import UserError
from resmlp_mt.pipeline.search import Search
from resmlp_mt.pipeline.teacher import Teacher

COST = ("wall_seconds", "cpu_seconds")
Chunk = Tuple[Path, List[str]]  # file to write, lines to translate


def device_of(number: int, cpu: bool) -> torch.device:
    """The device of a process: GPUs in turn where there are any."""
    if cpu or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", number % torch.cuda.device_count())


def make_chunk(
    path: Path, lines: List[str], teacher: Teacher, on_progress: Callable[[int], None]
) -> None:
    """Translate *lines* and write the hypotheses, or nothing."""
    before = time.perf_counter(), time.process_time()
    beams = teacher.translate(lines, on_progress)
    after = time.perf_counter(), time.process_time()
    head = {name: round(b - a, 3) for name, a, b in zip(COST, before, after)}
    partial = Path(f"{path}.partial")
    with gzip.open(partial, "wt", encoding="utf-8") as file:
        for record in (head, *beams):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    os.replace(partial, path)


def in_processes(
    todo: List[Chunk], search: Search, count: int, on_progress: Callable[[int], None]
) -> None:
    """:func:`make_chunk` for all of *todo* by *count* processes, each with a teacher of its own.

    Raises:
        UserError: what a process raises, or if one is ended from outside; the others are ended.
    """
    # a forked process could use neither a GPU nor OpenMP's threads
    context = get_context("spawn")
    threads = max(1, torch.get_num_threads() // count)
    waiting, workers = iter(todo), {}
    try:
        for number in range(count):
            here, there = context.Pipe()
            device = device_of(number, search.cpu)
            worker = context.Process(
                target=_work, args=(there, search, device, threads), daemon=True
            )
            worker.start()
            there.close()
            workers[here] = worker
        busy = [here for here in workers if _hand(here, waiting)]
        while busy:
            for here in wait(busy):
                try:
                    said = here.recv()
                except (EOFError, ConnectionError):
                    workers[here].join()
                    raise UserError(
                        f"a process ended with status {workers[here].exitcode} (-9: killed, "
                        "perhaps for want of memory; 1: see above): the same command goes on from "
                        "here, with fewer --shards if need be"
                    ) from None
                if isinstance(said, UserError):
                    raise said
                if said is not None:
                    on_progress(said)
                elif not _hand(here, waiting):
                    busy.remove(here)
    finally:
        for worker in workers.values():
            worker.terminate()
            worker.join()


def _hand(connection: Connection, waiting: Iterator[Chunk]) -> bool:
    """Give a process its next chunk; False if there is none."""
    chunk = next(waiting, None)
    if chunk is not None:
        with suppress(ConnectionError):  # it has ended; reading from it will say so
            connection.send(chunk)
    return chunk is not None


def _work(connection: Connection, search: Search, device: torch.device, threads: int) -> None:
    """A process: chunks in; numbers of lines, then None for a chunk that is written, out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    torch.set_num_threads(threads)
    with suppress(EOFError, ConnectionError):  # the parent has ended
        try:
            teacher = Teacher(search, device)
            while True:
                path, lines = connection.recv()
                make_chunk(path, lines, teacher, connection.send)
                connection.send(None)
        except UserError as error:
            connection.send(error)
        except OSError as error:  # such as a full disk
            connection.send(UserError(error.strerror or str(error)))
