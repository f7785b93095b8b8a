"""Translate batches in one process, or in several, each with the model on a GPU of its own."""

import multiprocessing
import signal
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Iterator, List, Sequence, Tuple

import torch

from resmlp_mt.errors import UserError
from resmlp_mt.wmt14.translate_model import Settings, Translator

Batch = List[List[str]]  # the subwords of each sentence


class Here:
    """One shard: this process.

    Args:
        settings: what to load.
        device: where to.

    Attributes:
        positions, source: see :class:`~resmlp_mt.wmt14.translate_model.Translator`.
    """

    def __init__(self, settings: Settings, device: str):
        self._translator = Translator(settings, device)
        self.positions, self.source = self._translator.positions, self._translator.source

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def translate(self, batches: Sequence[Batch]) -> Iterator[Tuple[int, List[str]]]:
        """``(number of the batch, its translations)``, in any order."""
        for number, batch in enumerate(batches):
            yield number, self._translator.translate(batch)


def _work(connection: Connection, settings: Settings, device: str, threads: int) -> None:
    """A shard's process: says ``("ready", ...)``, then answers each batch."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    try:
        torch.set_num_threads(threads)
        translator = Translator(settings, device)
        connection.send(("ready", (translator.positions, translator.source)))
        while True:
            number, batch = connection.recv()
            connection.send(("done", (number, translator.translate(batch))))
    except (EOFError, ConnectionError):
        return  # the parent has ended
    except UserError as error:
        connection.send(("failed", str(error)))
    except Exception as error:
        connection.send(("failed", f"{error!r} at {traceback.extract_tb(error.__traceback__)[-1]}"))


class Shards:
    """Several processes; each is given a batch when it has answered the one before.

    Args:
        settings: what to load.
        devices: one a process.
        threads: CPU threads of each process.

    Attributes:
        positions, source: as of :class:`Here`.

    Raises:
        UserError: if one fails to start, or dies.
    """

    def __init__(self, settings: Settings, devices: Sequence[str], threads: int):
        spawn = multiprocessing.get_context("spawn")
        self._processes, self._connections = [], []
        self._devices = devices
        try:
            for device in devices:
                ours, theirs = spawn.Pipe()
                arguments = (theirs, settings, device, threads)
                process = spawn.Process(target=_work, args=arguments, daemon=True)
                process.start()
                theirs.close()
                self._processes.append(process)
                self._connections.append(ours)
            for shard in range(len(devices)):
                self.positions, self.source = self._receive(shard, "ready")
        except BaseException:
            self._stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._stop()

    def translate(self, batches: Sequence[Batch]) -> Iterator[Tuple[int, List[str]]]:
        """``(number of the batch, its translations)``, in the order in which they are ready.

        Raises:
            UserError: naming the shard that died.
        """
        waiting = iter(enumerate(batches))
        busy = {}
        for shard, connection in enumerate(self._connections):
            if self._give(shard, waiting):
                busy[connection] = shard
        while busy:
            for connection in wait(list(busy)):
                shard = busy.pop(connection)
                yield self._receive(shard, "done")
                if self._give(shard, waiting):
                    busy[connection] = shard

    def _give(self, shard: int, waiting: Iterator) -> bool:
        message = next(waiting, None)
        if message is None:
            return False
        with suppress(ConnectionError):  # it has died, and reading from it will say so
            self._connections[shard].send(message)
        return True

    def _receive(self, shard: int, expected: str):
        try:
            kind, content = self._connections[shard].recv()
        except (EOFError, ConnectionError):
            self._died(shard)
        if kind != expected:
            raise UserError(f"{self._name(shard)}: {content}")
        return content

    def _name(self, shard: int) -> str:
        return f"shard {shard + 1} of {len(self._devices)} ({self._devices[shard]})"

    def _died(self, shard: int):
        process = self._processes[shard]
        process.join()
        code = process.exitcode
        how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
        raise UserError(
            f"{self._name(shard)} {how}: nothing was written; if memory ran out, take fewer "
            "--shards or --max-tokens"
        )

    def _stop(self) -> None:
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()
