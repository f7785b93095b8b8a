"""Progress on standard error: a bar with the time left on a terminal, plain lines in a log."""

import sys

from tqdm import tqdm

ON_TERMINAL, IN_LOG = 0.2, 30.0  # seconds between two updates


class Progress(tqdm):
    """Counts units of work, of which *done* were done before. Leaving the context removes the bar.
    Work of less than half a minute writes nothing to a log."""

    monitor_interval = 0  # tqdm's thread would be forked with the workers

    def __init__(self, what: str, total: int | None, unit: str, done: int = 0):
        self.on_terminal = sys.stderr.isatty()
        self.what, self.counted = what, unit
        wait = ON_TERMINAL if self.on_terminal else IN_LOG
        super().__init__(
            initial=done,
            total=total,
            bar_format=self._format(total),
            file=sys.stderr,
            mininterval=wait,
            delay=wait,
            miniters=1,
            leave=False,
            ascii="-#",
            dynamic_ncols=True,
        )

    def _format(self, total: int | None) -> str:
        if total is None:
            return f"{self.what}: {{n:,}} {self.counted}{{postfix}}"
        bar = " {bar}" if self.on_terminal else ":"
        return (
            f"{self.what}{bar} {{n:,}} of {total:,} {self.counted}, {{remaining}} left{{postfix}}"
        )

    def expect(self, total: int) -> None:
        """Set the total, once it is known better."""
        self.total, self.bar_format = total, self._format(total)

    def display(self, msg=None, pos=None):
        if self.on_terminal:
            return super().display(msg, pos)
        if msg is None and self.total is not None:  # a filter's log stays empty
            print(self, file=sys.stderr, flush=True)

    def resume(self, done: int) -> None:
        """Start the clock again, with *done* units done before."""
        self.n = self.initial = self.last_print_n = done
        self.start_t = self.last_print_t = self._time()

    def say(self, line: str) -> None:
        """Write a line above the bar."""
        if self.on_terminal:
            self.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)
