"""Progress on standard error: a bar with the time left on a terminal, plain lines in a log."""

import shutil
import sys
import time
from datetime import timedelta

from resmlp_mt_runtime.errors import printable, say

ON_TERMINAL, IN_LOG = 0.2, 30.0  # seconds between two updates


class Progress:
    """Counts units of work. Leaving the context removes the bar. Work of less than half a minute
    writes nothing to a log, work without a *total* nothing at all."""

    def __init__(self, what: str, total: int | None, unit: str):
        self.what, self.total, self.unit, self.note = what, total, unit, ""
        self.on_terminal = sys.stderr.isatty()
        self.start(0)

    def start(self, n: int) -> None:
        """Measure the time from here, where *n* units are done."""
        self.n = self._first = n
        self._started = self._shown = time.monotonic()

    def update(self, n: int) -> None:
        """Count *n* more units."""
        self.n += n
        now = time.monotonic()
        if self.total and now - self._shown >= (ON_TERMINAL if self.on_terminal else IN_LOG):
            self._shown = now
            if self.on_terminal:
                self._draw(str(self))
            else:
                say(self)

    def say(self, line: str) -> None:
        """Write a line above the bar."""
        if self.on_terminal:
            self._draw("")
        say(line)

    def __str__(self) -> str:
        total, done, left = self.total or 1, self.n - self._first, "?"
        if done:
            seconds = (time.monotonic() - self._started) * max(0, total - self.n) / done
            left = str(timedelta(seconds=round(seconds)))
        bar = ":"
        if self.on_terminal:
            filled = min(10, 10 * self.n // total)
            bar = f" {'#' * filled}{'-' * (10 - filled)}"
        return f"{self.what}{bar} {self.n:,} of {total:,} {self.unit}, {left} left{self.note}"

    def _draw(self, line: str) -> None:
        """Put *line* in the place of the bar."""
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{printable(line)[:width]:{width}}\r", end="", file=sys.stderr, flush=True)

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        if self.on_terminal:
            self._draw("")
