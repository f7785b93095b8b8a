"""A command at a terminal: its progress, and its end by one line and a status, no traceback."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta

from resmlp_mt_runtime.errors import in_one_line, printable, say

ON_TERMINAL, IN_LOG = 0.2, 30.0  # seconds between two updates of progress
RESUMED = ": with --output, --resume continues after its last complete line"  # a translation
# a batch system sends the first at the end of the time, the second as a warning before it; the
# third comes when a terminal is closed
ENDING = [getattr(signal, x) for x in ("SIGTERM", "SIGUSR1", "SIGHUP") if hasattr(signal, x)]


class _Terminated(SystemExit):
    """Raised by a signal, so that partial files are removed, as after Ctrl-C."""

    code: int


def _terminate(number, frame):
    for each in ENDING:  # the first signal is enough
        signal.signal(each, signal.SIG_IGN)
    raise _Terminated(128 + number)


def _drop_output() -> None:
    """Python would flush it once more at exit, and print an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_main(
    main: Callable[[], None],
    program: str,
    resumed: str = "",
    in_one_line: Callable[[BaseException], str | None] = in_one_line,
) -> int:
    """Call *main*, the work of a *program*. Returns the exit status: 1 after an error, 130 after
    Ctrl-C, 128 + N after signal N, 141 if the reader of standard output has ended.

    *resumed* says how what was stopped continues, *in_one_line* what is printed of an error.
    """
    if sys.stderr is None:  # closed by 2>&- in a shell; print() would use standard output instead
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)
    if sys.stdout is None:
        say(f"{program}: error: standard output is closed: redirect it")
        return 1
    if hasattr(sys.stdout, "reconfigure"):  # a name may have letters that the terminal lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    before = {each: signal.getsignal(each) for each in ENDING}
    for each, handler in before.items():
        if handler != signal.SIG_IGN:  # as by nohup
            signal.signal(each, _terminate)
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:  # of head, less
        _drop_output()
        return 141
    except Exception as error:
        message = in_one_line(error)
        if message is None or os.environ.get("RESMLP_MT_TRACEBACK"):
            raise
        say(f"{program}: error: {message}")
        try:
            sys.stdout.flush()
        except OSError:  # a full disk
            _drop_output()
        return 1
    except (KeyboardInterrupt, _Terminated) as stop:
        print(file=sys.stderr)
        say(f"{program}: stopped{resumed}")
        return stop.code if isinstance(stop, _Terminated) else 130
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    return 0


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
        self.clear()
        say(line)

    def clear(self) -> None:
        """Remove the bar."""
        if self.on_terminal and self.total:
            self._draw("")

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
        """Draw *line* where the bar is."""
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{printable(line)[:width]:{width}}\r", end="", file=sys.stderr, flush=True)

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.clear()
