"""Progress on standard error: a bar with the time left on a terminal, plain lines in a log."""

import sys
import threading

from tqdm import tqdm

from resmlp_mt.errors import printable, say

ON_TERMINAL, IN_LOG = 0.2, 30.0  # seconds between two updates


class Progress(tqdm):
    """Counts units of work. Leaving the context removes the bar. Work of less than half a minute
    writes nothing to a log."""

    monitor_interval = 0  # tqdm's thread would be forked with the workers
    _lock = threading.RLock()  # tqdm's own is shared with forks: one that is killed would keep it

    def __init__(self, what: str, total: int | None, unit: str):
        self.on_terminal = sys.stderr.isatty()
        shown = f"{what}: {{n:,}} {unit}{{postfix}}"
        if total is not None:
            bar = " {bar}" if self.on_terminal else ":"
            shown = f"{what}{bar} {{n:,}} of {{total:,}} {unit}, {{remaining}} left{{postfix}}"
        wait = ON_TERMINAL if self.on_terminal else IN_LOG
        super().__init__(
            total=total,
            bar_format=shown,
            file=sys.stderr,
            mininterval=wait,
            delay=wait,
            miniters=1,
            leave=False,
            ascii="-#",
            dynamic_ncols=True,
        )

    def display(self, msg=None, pos=None):
        if self.on_terminal:
            return super().display(msg, pos)
        if msg is None and self.total is not None:  # a filter's log stays empty
            say(self)

    def say(self, line: str) -> None:
        """Write a line above the bar."""
        if self.on_terminal:
            self.write(printable(line), file=sys.stderr)
        else:
            say(line)
