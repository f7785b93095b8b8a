"""Progress on standard error: a bar with the time left on a terminal, plain lines in a log."""

import shutil
import sys
import time
from collections import deque
from typing import Self

MEMORY = 30.0  # seconds of recent work that the speed is taken from
ON_TERMINAL, IN_LOG = 0.2, 30.0  # seconds between two looks
WIDTH = 20  # characters of the bar


class Progress:
    """Counts the work done, of which *done* was there before. Leaving the context removes the bar.

    Work of less than half a minute writes nothing to a log.
    """

    def __init__(self, what: str, total: int, unit: str, done: int = 0):
        self.what, self.total, self.unit, self.done = what, total, unit, done
        self.note = ""  # what else is shown
        self._bar = sys.stderr.isatty()
        self._shown = time.monotonic()
        self._recent = deque([(self._shown, done)])  # when how much was done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        if self._bar:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def add(self, count: int = 1) -> None:
        """Say that *count* more are done."""
        self.done += count
        now = time.monotonic()
        if now - self._shown < (ON_TERMINAL if self._bar else IN_LOG):
            return
        self._shown = now
        self._recent.append((now, self.done))
        while len(self._recent) > 2 and now - self._recent[1][0] >= MEMORY:
            self._recent.popleft()
        self._show(now)

    def resume(self, done: int) -> None:
        """Say that *done* turned out to be there before."""
        self.done = done
        self._recent = deque([(time.monotonic(), done)])

    def say(self, line: str) -> None:
        """Write a line of its own, above the bar."""
        print(f"\r\x1b[K{line}" if self._bar else line, file=sys.stderr, flush=True)

    def _show(self, now: float) -> None:
        share = self.done / self.total
        counted = f"{self.done:,} of {self.total:,} {self.unit}, {self._left(now)} left{self.note}"
        if not self._bar:
            print(f"{self.what}: {counted}", file=sys.stderr, flush=True)
            return
        bar = ("#" * int(share * WIDTH)).ljust(WIDTH, "-")
        line = f"{self.what} {bar} {share:4.0%}, {counted}"
        columns = shutil.get_terminal_size().columns - 1
        print(f"\r{line[:columns]}\x1b[K", end="", file=sys.stderr, flush=True)

    def _left(self, now: float) -> str:
        """The time that the rest takes at the recent speed, such as 2:05 or 1:02:05."""
        then, before = self._recent[0]
        if self.done == before:
            return "?"
        seconds = round((self.total - self.done) * (now - then) / (self.done - before))
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
