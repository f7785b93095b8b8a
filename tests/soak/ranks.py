"""Several processes of one of fairseq's programs that work together over gloo, on this machine."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Sequence

from cli import hypotheses, values
from interrupting import Follower, Process

MEASURED = Path(__file__).with_name("measured")  # a --user-dir
_LONG = 900.0  # seconds; PyTorch gives up on a silent peer after 1,800


def free_port() -> int:
    """A TCP port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def together(
    run: Callable, program: str, words: Sequence, folder: Path, count: int = 2
) -> Iterator[List[Process]]:
    """So many processes of a program, each started by hand with its rank.

    Args:
        run: :func:`processes.installed` or :func:`processes.forked`.
        program: ``fairseq-train`` or ``fairseq-generate``.
        words: its command line.
        folder: for their logs: ``0.log`` ...
        count: of processes.

    Yields:
        the processes; those that have not ended are killed at the end.
    """
    folder.mkdir(parents=True)
    shared = ["--distributed-world-size", count, "--distributed-no-spawn"]
    shared += ["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
    shared += ["--distributed-init-method", f"tcp://localhost:{free_port()}"]
    processes = []
    try:
        for rank in range(count):
            options = [*words, *shared, "--distributed-rank", rank]
            processes.append(run(program, options, folder / f"{rank}.log"))
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait(timeout=60)


def all_well(processes: Sequence[Process]) -> List[str]:
    """Wait for them; gives a line for each that fails."""
    statuses = [process.wait(timeout=_LONG) for process in processes]
    return [f"process {n} ended with status {s}" for n, s in enumerate(statuses) if s]


def losses(log: Path) -> Dict[str, List[float]]:
    """The losses of every update and of every validation."""
    text = log.read_text(encoding="utf-8")
    return {name: values(text, name) for name in ("loss", "valid_loss")}


def apart(one: Path, other: Path) -> float:
    """The largest difference between two logs' losses; infinite if one has more of them."""
    pairs = []
    for name, some in losses(one).items():
        others = losses(other)[name]
        if len(some) != len(others) or not some:
            return float("inf")
        pairs += zip(some, others)
    return max(abs(a - b) for a, b in pairs)


def kill_late(kill: Callable[[], None], survivor: Process, log: Path, update: int) -> dict:
    """Kill a process after an update, and wait for another to end by itself.

    Args:
        kill: kills the first.
        survivor: the other.
        log: the one that has the updates in it.
        update: the last one before the kill.

    Returns:
        ``seconds`` from the kill to the survivor's end, and its ``status``: None if it has not
        ended in 15 minutes.
    """
    follower = Follower(log)
    while follower.update < update and survivor.poll() is None:
        follower.follow()
        time.sleep(0.001)
    kill()
    killed = time.perf_counter()
    try:
        status = survivor.wait(timeout=_LONG)
    except subprocess.TimeoutExpired:
        status = None
    return {"seconds": round(time.perf_counter() - killed, 2), "status": status}


def kill_rank(parent: int, rank: int) -> None:
    """SIGKILL to the process of that rank which *parent* (torchrun) has started.

    Raises:
        ProcessLookupError: if there is none.
    """
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for child in children:
        variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        if f"RANK={rank}".encode() in variables:
            return os.kill(int(child), signal.SIGKILL)
    raise ProcessLookupError(f"process {parent} has no process of rank {rank}")


def shared_out(whole: str, parts: Sequence[str]) -> List[str]:
    """What is wrong with translations that several processes shared out.

    Args:
        whole: what ``fairseq-generate`` prints when one process translates all.
        parts: what each of several prints.
    """
    expected, found = hypotheses(whole), [hypotheses(part) for part in parts]
    lost = [f"process {n} translated nothing" for n, part in enumerate(found) if not part]
    for number, translations in expected.items():
        made = [part[number] for part in found if number in part]
        if len(made) != 1:
            lost.append(f"sentence {number} was translated {len(made)} times")
        elif [words for _, words in made[0]] != [words for _, words in translations]:
            lost.append(f"sentence {number} was translated otherwise")
        elif max(abs(a - b) for (a, _), (b, _) in zip(made[0], translations)) > 1e-3:
            lost.append(f"sentence {number} has another score")
    return lost
