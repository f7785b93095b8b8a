"""The memory of a process and of all that it starts, watched from outside (Linux)."""

import re
import threading
from pathlib import Path
from typing import Dict, List, Tuple

INTERVAL = 0.1  # seconds between two looks


class MemoryWatch:
    """The memory of a process and all its descendants, looked at ten times a second (Linux).

    Attributes:
        phase: name under which the peaks are kept from now on.
        peaks: by phase: ``rss`` (pages that processes share are counted in each) and ``pss``
            (each once), in bytes.
    """

    def __init__(self, pid: int):
        self.pid, self.phase, self.peaks = pid, "start and check", {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(INTERVAL):
            found = [memory_of(pid) for pid in descendants(self.pid)]
            peak = self.peaks.setdefault(self.phase, {"rss": 0, "pss": 0})
            for kind, now in zip(("rss", "pss"), map(sum, zip(*found))):
                peak[kind] = max(peak[kind], now)


def descendants(pid: int) -> List[int]:
    """A process and all that it has begun, directly or not."""
    children: Dict[int, List[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found


def memory_of(pid: int) -> Tuple[int, int]:
    """``(rss, pss)`` of a process in bytes; zeros if it has ended."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0, 0
    return tuple(1024 * int(re.search(rf"^{k}:\s+(\d+)", text, re.M)[1]) for k in ("Rss", "Pss"))
